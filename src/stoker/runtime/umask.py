"""What a server and its supervisors write is for their user alone, whatever nobody has thought of.

The mask of the process is closed at its start. Programs get the one that was found back, and what lies in buckets is as open as
that says: programs of other users read it, in a sandbox at level 2 and outside of Stoker.
"""

from __future__ import annotations

import os
from typing import Optional

_CLOSED = 0o077
_USUAL = 0o022
_found: Optional[int] = None


def close_files() -> int:
    """From now on what this process writes is its user's alone. Returns the mask that was found at the first call."""
    global _found
    found = os.umask(_CLOSED)
    if _found is None:
        _found = found
    return _found


def mask() -> int:
    """The mask that programs are to have."""
    return _USUAL if _found is None else _found


def opened(mode: int) -> int:
    """A mode less what that mask takes from it."""
    return mode & ~mask()


def make_open_folder(path: "os.PathLike[str] | str", *, exist_ok: bool = True) -> None:
    """Make a folder and those above it, as open as without us. One that is there stays as it is. Raises OSError."""
    above = os.path.dirname(path)
    if above and not os.path.isdir(above):
        make_open_folder(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not exist_ok or not os.path.isdir(path):
            raise
        return
    _open(path, 0o777, os.O_DIRECTORY)


def make_open_file(path: "os.PathLike[str] | str") -> None:
    """Make an empty file, as open as without us. One that is there is left alone. Raises OSError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        return
    _open(path, 0o666, os.O_NONBLOCK)


def _open(path: "os.PathLike[str] | str", mode: int, flags: int) -> None:
    """Give it its mode, but never to what a link leads to that somebody has put there meanwhile."""
    if _found is not None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags)
        try:
            os.fchmod(descriptor, opened(mode))
        finally:
            os.close(descriptor)
