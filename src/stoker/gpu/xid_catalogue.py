"""What each Xid, an error number of NVIDIA's driver, calls for. Source: NVIDIA's Xid catalogue (October 2025), immediate action.

Where Meta's list of what is not critical (arXiv 2410.21680) says less than NVIDIA's, the stricter one counts.
"""

from __future__ import annotations

from enum import StrEnum


class XidAction(StrEnum):
    """What is to be done."""

    NOTHING = "NOTHING"
    RESTART_PROGRAM = "RESTART_PROGRAM"  # the program has failed; most often it is at fault itself
    WATCH = "WATCH"  # tell the admin, and go on
    RESET_GPU = "RESET_GPU"
    RESTART_MACHINE = "RESTART_MACHINE"
    UNKNOWN = "UNKNOWN"


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


_ACTIONS = {
    XidAction.RESTART_PROGRAM: _numbers(
        "8 11 13 25 31 32 39-41 45 60 68-72 75-77 80 82-86 88 89 94 96-105 126-135 139"
    ),
    XidAction.RESET_GPU: _numbers("46 48 62 64 74 95 109 110 119 120 136 140 143-150 155 156 158"),
    XidAction.RESTART_MACHINE: _numbers("79"),
    XidAction.WATCH: _numbers("54 63 78 92 142 154"),
    XidAction.NOTHING: _numbers("37 38 43 44 66 67 93 106 107 121 137 141 152 153 157 160 161"),
}

_WORDS = {
    13: "an exception of the graphics engine, most often the program's own",
    31: "a page fault, most often the program's own",
    43: "the program has ended by an error of its own",
    45: "what ran was ended, because of another error",
    48: "an error of memory that cannot be corrected",
    54: "a power cable is not connected",
    63: "a row of memory will be replaced at the next reset",
    64: "a row of memory could not be replaced",
    74: "an error of NVLink",
    79: "the GPU has fallen off the bus",
    92: "many errors of memory that were corrected",
    94: "an error of memory that was contained: one program has failed",
    95: "an error of memory that was not contained",
    119: "the GPU's system processor does not answer",
    120: "an error of the GPU's system processor",
    154: "the driver advises something else than before",
}


def action_of(xid: int) -> XidAction:
    """What an Xid calls for."""
    return next((action for action, numbers in _ACTIONS.items() if xid in numbers), XidAction.UNKNOWN)


def words_of(xid: int) -> str:
    """What an Xid means; empty: it is not one of the frequent ones."""
    return _WORDS.get(xid, "")
