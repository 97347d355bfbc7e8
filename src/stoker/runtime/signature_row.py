r"""What a row of the table of signs holds (signature_table.py)."""

from __future__ import annotations

from typing import NamedTuple, Tuple

# What a sign says about trying again, whatever the exit code says.
NEVER = "never"  # the same would happen again
ELSEWHERE = "elsewhere"  # on another node: this one is, or may be, to blame
ANYWHERE = "anywhere"  # it may pass
AS_EXIT_CODE = ""  # it says nothing: the exit code decides

KERNEL, CAUSE, EFFECT = range(3)
"""The ranks of signs: the smaller explains the greater."""

BEFORE = (
    r"^(?:[\[(][^\])\n]{1,80}[\])]:?[ \t]*){0,3}[ \t]*"  # the rank or the task that some launchers put before each line
)


class Signature(NamedTuple):
    """One row: what is known by these texts."""

    code: str
    again: str
    rank: int
    texts: Tuple[str, ...]  # regular expressions, for lines
