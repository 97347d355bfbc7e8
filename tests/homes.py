"""Homes of servers, made quickly: the runtime is packed once for all of them instead of once for each."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from stoker.runtime.zipapp import build


def a_home(folder: Path) -> Path:
    """The folder as a home in which the runtime lies already, as after an earlier start."""
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    shutil.copy2(_runtime(), folder / "cache")
    return folder


@cache
def _runtime() -> Path:
    folder = tempfile.mkdtemp(prefix="stoker-runtime-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(build(folder))
