"""Some megabytes of the home that mean nothing: a server that starts on a full disk gives them up, and so has room to start."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .room import free_bytes

BALLAST_BYTES = 8 << 20
"""What a start writes: the database's log (4 MiB before it is taken up), the runtime's archive (1.5), small files."""

_BLOCK_BYTES = 1 << 20


class Ballast:
    """The file, and when it is made and dropped. Only the server that has the home's lock may do either."""

    def __init__(self, home: Path, reserve_mb: float, free: Callable[[Path], int] = free_bytes) -> None:
        """`reserve_mb`: what is to stay free beside it."""
        self._path = home / "ballast.bin"
        self._free = free
        self._wanted_bytes = reserve_mb * 1_000_000 + 2 * BALLAST_BYTES

    def drop(self) -> bool:
        """Give the room back, if there is hardly any left. Returns whether that was done."""
        try:
            if not self._path.exists() or self._free(self._path.parent) >= BALLAST_BYTES // 2:
                return False
            self._path.unlink()
        except OSError:
            return False
        return True

    def take(self) -> None:
        """Make the file, if it is not there and there is room enough. Random bytes: no file system makes less of them."""
        part = self._path.with_suffix(".part")
        try:
            if self._path.exists() or self._free(self._path.parent) < self._wanted_bytes:
                return
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                for _ in range(BALLAST_BYTES // _BLOCK_BYTES):
                    file.write(os.urandom(_BLOCK_BYTES))
            part.replace(self._path)
        except OSError:  # it is tried again
            with suppress(OSError):
                part.unlink()
