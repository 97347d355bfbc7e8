"""The runtime that supervisors are started from: an archive in the home's cache, which somebody may damage."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from stoker.runtime.zipapp import build

_log = logging.getLogger("stoker.engine")


class Archive:
    """One server's."""

    def __init__(self, path: Path, cache: Path) -> None:
        """`cache`: the folder in which it is packed again."""
        self._path, self._cache = path, cache
        self._stamp = self._now()

    def path(self) -> str:
        """Where it is; packed again if it was changed or removed since it was looked at. Raises OSError."""
        if self._now() != self._stamp:
            self._path = Path(build(str(self._cache)))
            self._stamp = self._now()
            _log.warning("%s was changed or removed, and is made anew", self._path)
        return str(self._path)

    def _now(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
