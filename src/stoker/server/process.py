"""How the process of a server is set up: its memory, its open files, its threads."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from contextlib import suppress

MOST_FILES = 65_536
GARBAGE_THRESHOLD = 10_000
"""So many new objects that others refer to, before the youngest are looked through."""

SWITCH_SECONDS = 0.001
"""So long one thread keeps the interpreter while another waits for it. By default five times as long: a request goes from thread
to thread, and each row of a database is a chance to wait."""

_M_ARENA_MAX = -8  # malloc.h of glibc


def keep_one_arena() -> None:
    """Let all threads take memory from one place, where the C library can be told to (glibc). To be called before they start.

    Otherwise each gets a place of its own, and fills it with gaps: under a crowd the server grew by 80 MB an hour. A second
    place would save waiting for a lock, and one interpreter does not wait there.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def make_room_for_many() -> None:
    """Serve as many at a time as the system lets us, and look for garbage only among what came after the start.

    Every supervisor keeps a connection open, and the usual 1,024 files are soon used up. And what a server has read by now it
    keeps: to look through it again and again would stop everybody for a tenth of a second each time.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)
