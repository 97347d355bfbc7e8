"""The folder of public traces, which is no part of the repository; what needs it is skipped where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("STOKER_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
REAL = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no traces in {FOLDER}; name their folder with $STOKER_TRACES")

PHILLY = FOLDER / "philly" / "philly_2017-09-04_2017-11-05.csv.gz"
