"""What ends a replica before its program begins, and how a supervisor complains."""

from __future__ import annotations

import errno
import os

MAY_PASS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM))
"""Errors of a machine that has no room now. They are no fault of the job's, and trying again may help."""


class CannotStart(Exception):
    """The program cannot be started at all; trying again would not help. Says why."""


def complain(text: str) -> None:
    """A line for `supervisor.err`. None if that cannot be written, for a full disk may be what it is about."""
    try:
        os.write(2, f"{text}\n".encode(errors="replace"))
    except OSError:
        pass
