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
