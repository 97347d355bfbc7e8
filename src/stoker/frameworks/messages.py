"""What is said to the user, in the log of the program, and how a program is refused."""

from __future__ import annotations

import errno
import sys

STOPPED_EXIT_CODE = 143
"""128 + SIGTERM: the program was told to stop, has saved, and is to be run again."""

_said = set()  # type: set[str]


def say(text: str) -> None:
    """One line in the log, once."""
    if text not in _said:
        _said.add(text)
        print(f"stoker: {text}", file=sys.stderr, flush=True)


class Refused(SystemExit):
    """What was asked for cannot be made true. Ends the program with these words, and status 1: it is not tried again."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"stoker: refused: {why}; {fix}")


_PASSING = frozenset(
    {errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EIO}
)


class NotNow(SystemExit):
    """What is needed cannot be reached at the moment. Ends the program so that it is tried again."""

    def __init__(self, why: str) -> None:
        print(f"stoker: {why}; it is tried again", file=sys.stderr, flush=True)
        super().__init__(STOPPED_EXIT_CODE)


def passes(error: OSError) -> bool:
    """Whether it may be otherwise in a minute."""
    return isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _PASSING
