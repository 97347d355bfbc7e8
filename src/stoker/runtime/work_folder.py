"""The program's working directory: what it has written there, and whether that is more than it may."""

from __future__ import annotations

import os
from shutil import rmtree
from typing import Any, Dict

from .disk_use import DiskLimit
from .folder import Folder, files_in

DISK_QUOTA = "DISK_QUOTA"
"""The sign of a program that was ended because it held more than it may."""


class WorkFolder:
    """The working directory of one replica, with what else is its program's own."""

    def __init__(self, folder: Folder, request: Dict[str, Any]) -> None:
        self.path = folder.work
        self.environment = os.path.join(folder.path, "environment")
        self._copies: Dict[str, "tuple[int, int]"] = {}
        own = (self.path, folder.beat_folder, self.environment)
        self._limit = DiskLimit(own, request.get("limits", {}).get("disk_bytes", 0.0))
        self.excess = ""
        """In what it holds more than it may; empty: it does not."""

    def begin(self) -> None:
        """What is there now is ours: copies of the program."""
        self._copies = files_in(self.path)

    def holds_too_much(self) -> bool:
        """Whether the program has to be ended. Costs next to nothing."""
        self.excess = self.excess or self._limit.look()
        return bool(self.excess)

    def failure(self, exit_code: int) -> Dict[str, Any]:
        """As what its end is reported."""
        return {"exit_code": exit_code, "message": self.excess, "sign": DISK_QUOTA, "evidence": self.excess}

    def tidy(self) -> str:
        """Keep what the program has written, and say so; drop a folder that holds our copies only."""
        try:
            now = files_in(self.path)
        except (OSError, RecursionError):  # too deep for os.walk
            return ""  # when in doubt, keep it
        written = sum(self._copies.get(path) != stamp for path, stamp in now.items())
        if written:
            return f"wrote {written} file(s) to its working directory, kept at {self.path}"
        rmtree(self.path, ignore_errors=True)
        return ""
