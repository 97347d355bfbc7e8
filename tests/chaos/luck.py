"""What may go wrong in a simulation, and when: drawn from the seed, one stream of chance a kind.

Each kind of fault has draws of its own, so that a fault that is left out does not move the others: that is how the story of
a failing seed is shrunk.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field


class Crash(BaseException):
    """The server's process is gone at this instant. No `except Exception` may outlive it."""


RATES: dict[str, float] = {
    "crash before a statement": 0.0015,
    "crash after a commit": 0.004,
    "crash before an engine call": 0.01,
    "crash after an engine call": 0.01,
    "crash before lines are kept": 0.004,
    "crash after lines are kept": 0.004,
    "crash while a request is answered": 0.006,
    "the disk is full": 0.002,
    "the database is busy": 0.001,
    "the disk is full for lines": 0.01,
    "a request is lost": 0.03,
    "an answer is lost": 0.03,
    "a request comes twice": 0.03,
    "a request comes late": 0.02,
    "an upload is cut off": 0.02,
    "a supervisor is killed": 0.004,
    "a program fails": 0.02,
    "a program hangs": 0.008,
    "a program ignores TERM": 0.1,
    "a child outlives its supervisor": 0.3,
    "a replica stands still": 0.004,
    "a node is cut off": 0.02,
    "an engine cannot start": 0.01,
    "an engine is silent": 0.02,
    "an engine call hangs": 0.004,
    "the server stands still": 0.002,
    "the server hangs and another takes over": 0.002,
    "the clock jumps": 0.3,
}
"""How likely each is at each point where it may happen, in a seed of middling bad luck."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault that happened: the how manieth chance of its kind it was."""

    kind: str
    n: int


@dataclass(slots=True)
class Faults:
    """The bad luck of one seed."""

    seed: int
    left_out: Collection[Fault] = frozenset()
    only: Collection[Fault] | None = None  # None: all that the seed draws
    happened: list[Fault] = field(default_factory=list)
    has_ceased: bool = False
    _dice: dict[str, random.Random] = field(default_factory=dict)
    _rates: dict[str, float] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        luck = random.Random(f"{self.seed}/luck")
        badness = luck.choice((0.0, 0.5, 1.0, 1.0, 2.0, 4.0))
        for kind, rate in RATES.items():
            # Of each seed some kinds are left out, so that others are met alone (FoundationDB's BUGGIFY does likewise).
            self._rates[kind] = rate * badness if luck.random() < 0.6 else 0.0

    def strikes(self, kind: str) -> bool:
        """Whether a fault of this kind happens here and now."""
        n = self._counts[kind] = self._counts.get(kind, 0) + 1
        dice = self._dice.get(kind)
        if dice is None:
            dice = self._dice[kind] = random.Random(f"{self.seed}/{kind}")
        drawn = dice.random() < self._rates[kind]
        if not drawn or self.has_ceased:
            return False
        fault = Fault(kind, n)
        if fault in self.left_out or (self.only is not None and fault not in self.only):
            return False
        self.happened.append(fault)
        return True

    def crash(self, kind: str) -> None:
        """Raise Crash if the server dies here."""
        if self.strikes(kind):
            raise Crash(kind)
