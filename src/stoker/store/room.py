"""A reserve of disk space: what is new is refused while there is little left, so that what runs can still be written down."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stoker.core.errors import Unavailable

_MB = 1_000_000


def free_bytes(folder: Path) -> int:
    """What this user can still write there, or where it would be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


FULL_BYTES = 1 << 20


def is_full(folder: Path) -> bool:
    """Whether hardly a byte can be written there."""
    try:
        return free_bytes(folder) < FULL_BYTES
    except OSError:
        return False


class Room:
    """So much is to stay free on a disk."""

    def __init__(self, reserve_mb: float, free: Callable[[Path], int] = free_bytes) -> None:
        self._reserve_mb = reserve_mb
        self._free = free

    def problem(self, folder: Path) -> str:
        """What a disk lacks of the reserve; empty: nothing."""
        free_mb = self._free(folder) / _MB
        if free_mb >= self._reserve_mb:
            return ""
        return f"the disk of {folder} is nearly full ({free_mb:.0f} MB are free)"

    def check(self, folder: Path, what: str) -> None:
        """Raise Unavailable while a disk has less. `what`: who is refused, in the plural."""
        if problem := self.problem(folder):
            raise Unavailable(
                f"{problem}: {what} are not taken now; what runs goes on",
                fix=f"free some space there, until {self._reserve_mb:.0f} MB are free (the setting reserve_mb)",
            )
