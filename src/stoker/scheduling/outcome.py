"""What came of a job that a round has looked at and not placed: what the round goes by, apart from the words that are shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from stoker.core.job import Reason

from . import explain


class Outcome(Enum):
    """Why a job has no place after it was looked at."""

    NO_ROOM = auto()  # it is its turn, and not enough is free
    IMPOSSIBLE = auto()  # nor would it be if nobody else held anything
    OVER_QUOTA = auto()  # its queue holds all that it may
    OVER_BUDGET = auto()  # its project may not pay for the machines
    ORDERED = auto()  # machines are on their way for it
    NO_CAPACITY = auto()  # its machines did not come
    MAKING_ROOM = auto()  # others are being stopped for it
    RESERVED = auto()  # what is free is kept for one before it
    BEHIND = auto()  # one before it waits for the same

    @property
    def lets_others_try(self) -> bool:
        """Whether the next that asks for the same may have a place though this one has none.

        A shorter one may fit before a reservation, others may make room for the next one, or machines be ordered for it, or its
        project pays for it.
        """
        return self in _LETS_OTHERS_TRY


_LETS_OTHERS_TRY = frozenset({Outcome.RESERVED, Outcome.MAKING_ROOM, Outcome.ORDERED, Outcome.OVER_BUDGET})
_ITS_OWN = frozenset({Outcome.NO_ROOM, Outcome.MAKING_ROOM, Outcome.ORDERED, Outcome.OVER_BUDGET})


@dataclass(frozen=True, slots=True)
class Blocked:
    """A job that was not placed."""

    outcome: Outcome
    reason: Reason  # as it is shown

    @property
    def of_the_next(self) -> Blocked:
        """Why the next waits that asks for the same: behind this one, or for the same reason."""
        return BEHIND if self.outcome in _ITS_OWN else self


NO_ROOM = Blocked(Outcome.NO_ROOM, explain.HELD)  # for those of whom nobody asks why: its words are never shown
BEHIND = Blocked(Outcome.BEHIND, explain.behind())
RESERVED = Blocked(Outcome.RESERVED, explain.reserved())
MAKING_ROOM = Blocked(Outcome.MAKING_ROOM, explain.making_room())
