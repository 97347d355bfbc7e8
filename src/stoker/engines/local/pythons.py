"""The Pythons of this machine, as uv finds them, and what runtime versions can be made of them."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from stoker.core.runtimes import Surroundings

_LONGEST_SECONDS = 30.0
_REMEMBERED_SECONDS = 60.0  # somebody may install one, as they are told to


def surroundings(configured: Mapping[str, str], uv: str) -> Surroundings:
    """What this machine has to make runtimes of. `configured`: the setting `runtimes`; uv: its path."""
    return Surroundings(
        configured=configured,
        own_python=f"{sys.version_info.major}.{sys.version_info.minor}",
        own_tensorflow=_own_tensorflow(),
        installed=functools.partial(installed_pythons, uv),
    )


def find_uv() -> str:
    """uv, which came with Stoker."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def installed_pythons(uv: str) -> frozenset[str]:
    """`3.10`, `3.11`: those of this machine. Looked up at the first job in a minute that names a runtime: it takes half a second.

    Where uv cannot tell, Stoker's own alone.
    """
    return _installed(uv, int(time.monotonic() / _REMEMBERED_SECONDS))


@functools.lru_cache(maxsize=1)
def _installed(uv: str, minute: int) -> frozenset[str]:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [uv, "python", "list", "--only-installed", "--output-format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS)
        parts = [row["version_parts"] for row in json.loads(done.stdout) if row["implementation"] == "cpython"]
        return frozenset({own, *(f"{part['major']}.{part['minor']}" for part in parts)})
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        return frozenset({own})


@functools.cache
def _own_tensorflow() -> str:
    try:
        return metadata.version("tensorflow")
    except metadata.PackageNotFoundError:
        return ""
