"""The archive that this process was started from, as zipapp.py packs it: programs read of it, and somebody may damage it."""

from __future__ import annotations

import os

PATH = __file__.partition(".pyz")[0] + ".pyz" if ".pyz" in __file__ else ""
"""Empty: we were not packed."""
HOOKS = f"{PATH}/hooks" if PATH else ""
"""Where Python finds what adapts and measures a program's frameworks; empty: we were not packed."""


def has_changed() -> bool:
    """Whether it has been cut, written over, removed or packed anew since this process began."""
    return _look() != _WAS


def _look() -> "tuple[int, int, int]":
    """Which file it is and when it was written; all 0: it is gone, or there is none."""
    try:
        found = os.stat(PATH)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


_WAS = _look()
