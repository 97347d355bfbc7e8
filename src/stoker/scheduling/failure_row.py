"""What a row of the table of failures holds (failures.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Blame(StrEnum):
    """Where the trouble most likely lies."""

    PROGRAM = "program"  # the user's program, or what it was asked to run on
    HARDWARE = "hardware"  # a device is broken, or about to be
    NODE = "node"  # the node's software or disks
    EITHER = "either"  # the program or the node: another node tells
    NOBODY = "nobody"  # somebody wanted it so


@dataclass(frozen=True, slots=True)
class Failure:
    """One row."""

    code: str
    title: str  # a sentence's beginning, in lower case
    fix: str  # what to do
    blame: Blame = Blame.PROGRAM
