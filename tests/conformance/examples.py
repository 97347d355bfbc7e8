"""The least case there can be, its parts, and a file of cases, for the tests of the runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LEAST: dict[str, Any] = {"id": "a", "name": "n", "method": "GET", "path": "/v1/${P}", "expect": {"status": 200}}
STEP = {"method": "GET", "path": "/"}
POLL = {"path": "/", "until": {"state": ["DONE"]}, "seconds": 5}


def a_file(folder: Path, *cases: Any, **changes: Any) -> Path:
    """A file of cases."""
    path = folder / "cases.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "cases": list(cases), **changes}))
    return path
