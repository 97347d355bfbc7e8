"""The file in which replicas of this machine look up where their server is, at every new connection."""

from __future__ import annotations

import os
import re
from pathlib import Path

from stoker.runtime.folder import write_whole

_URL = re.compile(r"https?://[!-~]+")


class ServerFile:
    """`cache/server-url` of a home. The server that leads writes it; one that has led before leaves another's alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told = ""
        self._stamp: tuple[int, int] | None = None
        path.parent.mkdir(parents=True, exist_ok=True)

    def tell(self, url: str) -> None:
        """Let replicas find the server there."""
        write_whole(str(self.path), url)
        self._told, self._stamp = url, self._now()

    def mend(self) -> None:
        """Write it again if somebody has damaged or removed it. Costs next to nothing if it is as it was."""
        stamp = self._now()
        if self._told and stamp != self._stamp:
            if self._is_url():
                self._stamp = stamp  # another server has come
            else:
                self.tell(self._told)

    def _is_url(self) -> bool:
        try:
            return _URL.fullmatch(self.path.read_text(encoding="ascii").strip()) is not None
        except (OSError, ValueError):
            return False

    def _now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
