"""How long jobs may run: chances, from those that have ended here.

Of a job that has run for a while, only those count that ran longer than it has by now. One in k + 1 outlives all k of them;
by how much, their spread says. Who has outlived everybody is as likely to run as long again (Lindy). Of a job that is like
nothing that has run here, its limit is the upper end and half an hour the middle.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from statistics import NormalDist

from stoker.core.job import Attempt, Job
from stoker.insight.outlook import Interval, Runs
from stoker.scheduling.history import History

PRIOR_SECONDS = 1800.0
"""Half of the jobs of which nothing is known are taken to run no longer."""

SHORTEST_PRIOR_SECONDS = 10.0
LONGEST_PRIOR_SECONDS = 604800.0  # of a limit beyond seven days, nobody makes use without need

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9

SITES_LUCK, USERS_LUCK = 0.75, 0.4
"""How much of a job's luck is everybody's in a draw, and how much its user's. Measured: benchmarks/forecast.py."""

_NORMAL = NormalDist()
_FIRST = (MIDDLE, LOW, HIGH)


@dataclass(frozen=True, slots=True)
class Past:
    """Run times of jobs like one, ascending, in seconds; and the standard deviation of their logarithms."""

    runs: tuple[float, ...] = ()
    spread: float = 0.0

    @classmethod
    def of(cls, runs: Sequence[float]) -> Past:
        """With the spread worked out."""
        if not runs or runs[0] == runs[-1]:
            return cls(tuple(runs))
        logs = [math.log(max(1e-3, seconds)) for seconds in runs]
        mean = sum(logs) / len(logs)
        return cls(tuple(runs), math.sqrt(sum((log - mean) ** 2 for log in logs) / len(logs)))


UNKNOWN = Past()


class Known(History):
    """A History that is told no more: what a forecast plays teaches nothing. Holds what is known of some jobs."""

    def __init__(self, past: Mapping[str, Past], overhead_seconds: float | None = None) -> None:
        super().__init__()
        self._past = past
        self._cost_seconds = overhead_seconds

    @classmethod
    def of(cls, history: History, jobs: Iterable[Job]) -> Known:
        """What a History knows of these jobs now."""
        kept: dict[int, Past] = {}
        found: dict[str, Past] = {}
        for job in jobs:
            runs = history.runs(job)
            found[job.id] = kept.get(id(runs)) or kept.setdefault(id(runs), Past.of(runs))
        cost = history.overhead_seconds(-1.0)
        return cls(found, None if cost < 0 else cost)

    def again(self) -> Known:
        """The same, for another future: what a policy notes of jobs that are played stays in that future."""
        return Known(self._past, self._cost_seconds)

    def add(self, job: Job, ran_seconds: float) -> None:
        """Learn nothing."""

    def add_overhead(self, seconds: float) -> None:
        """Learn nothing."""

    def overhead_seconds(self, otherwise: float) -> float:
        """What a stop and a start cost here."""
        return otherwise if self._cost_seconds is None else self._cost_seconds

    def runs(self, job: Job) -> Sequence[float]:
        """Run times of jobs like it, ascending, in seconds."""
        return self.past(job).runs

    def alike(self, job: Job) -> object:
        """Of whom one and the same is known."""
        return id(self.past(job))

    def state_of(self, job: Job) -> object:
        """Nothing else comes to be known."""
        return None

    def past(self, job: Job) -> Past:
        """What is known of jobs like it."""
        return self._past.get(job.id, UNKNOWN)


def total_seconds(past: Past, ran_seconds: float, limit_seconds: float, chance: float) -> float:
    """How long a job holds its machines in all that has done so for `ran_seconds`; with `chance` (0 to 1) it is less."""
    longest, runs = max(limit_seconds, ran_seconds), past.runs
    if not runs:
        return min(longest, _prior(ran_seconds, limit_seconds, chance))
    first = bisect_right(runs, ran_seconds)
    longer = len(runs) - first
    if not longer:
        return min(longest, ran_seconds / max(1e-9, 1 - chance))
    beyond = 1 / (longer + 1) if past.spread else 0.0
    if chance < 1 - beyond:
        return min(longest, runs[first + min(longer - 1, int(chance / (1 - beyond) * longer))])
    further = (chance - (1 - beyond)) / beyond if beyond else 0.0
    return min(longest, runs[-1] * math.exp(-math.log(max(1e-9, 1 - further)) * past.spread))


def chance_of(job: Job, draw: int) -> float:
    """The chance, 0 to 1, that falls to a job in a draw: always the same one, so that questions can be compared.

    Jobs do not run long or short each for itself: what a site runs changes from day to day, and what one user submits is of
    a kind. So a part of the luck is everybody's, and a part its user's (a Gaussian copula of two factors). The luck that is
    everybody's is spread evenly over the draws, so that already a few of them show how wide the future is.
    """
    own = _luck(f"{draw}/{job.id}")
    users = _luck(f"{draw}/{job.owner}//")
    mixed = SITES_LUCK * _NORMAL.inv_cdf(_evenly(draw)) + USERS_LUCK * users
    return _NORMAL.cdf(mixed + math.sqrt(1 - SITES_LUCK**2 - USERS_LUCK**2) * own)


def ran_seconds(job: Job, attempt: Attempt | None, now: float) -> float:
    """How long a job has held machines by now, all attempts together."""
    return job.held_seconds + (0.0 if attempt is None else max(0.0, now - attempt.placed_at))


def expected_runs(job: Job, attempt: Attempt | None, history: History, now: float) -> Runs:
    """How long a job will likely hold its machines in all."""
    past, ran = Past.of(history.runs(job)), ran_seconds(job, attempt, now)
    limit = ran - (0.0 if attempt is None else now - attempt.placed_at) + job.spec.limits.running_seconds
    low, middle, high = (total_seconds(past, ran, limit, chance) for chance in (LOW, MIDDLE, HIGH))
    return Runs(
        seconds=Interval(low=low, middle=middle, high=high),
        known_runs=len(past.runs),
        basis=_basis(job, history, ran),
    )


def likely_end(job: Job, attempt: Attempt | None, known: Known, now: float) -> float:
    """When a running job will have ended in half of the cases."""
    placed = now if attempt is None else attempt.placed_at
    limit = job.held_seconds + job.spec.limits.running_seconds
    return placed - job.held_seconds + total_seconds(known.past(job), ran_seconds(job, attempt, now), limit, MIDDLE)


def _basis(job: Job, history: History, ran: float) -> str:
    """From what a run time is known, in words."""
    runs = history.runs(job)
    if not runs:
        return "nothing like it has run here: its limit is taken as the most"
    of_it = f"{len(runs)} {_circle(job, history, runs)}"
    return f"it has outlived all {of_it}" if ran and runs[-1] <= ran else f"from {of_it}"


def _circle(job: Job, history: History, runs: Sequence[float]) -> str:
    """Whose runs these are: History goes from the narrowest circle outward, so a stranger to a circle is told another one."""
    stranger = replace(job, owner="")
    if runs is not history.runs(replace(job, id="")) and runs is not history.runs(stranger):
        return "runs of its name"
    if runs is not history.runs(stranger):
        return f"runs of {job.owner} with as many GPUs"
    if runs is not history.runs(replace(stranger, spec=replace(job.spec, groups=(), queue=""))):
        return "runs of others with as many GPUs"
    return "runs of any kind; none with as many GPUs is known"


def _prior(ran: float, limit: float, chance: float) -> float:
    """Even in the logarithm below the middle, and above it up to the limit."""
    least = min(SHORTEST_PRIOR_SECONDS, limit / 4)
    middle = min(PRIOR_SECONDS, limit / 2)
    past = 0.0
    if ran < LONGEST_PRIOR_SECONDS:
        limit = min(limit, LONGEST_PRIOR_SECONDS)
    if ran >= limit:
        return ran
    if ran > middle:
        past = 0.5 + 0.5 * math.log(ran / middle) / math.log(limit / middle)
    elif ran > least:
        past = 0.5 * math.log(ran / least) / math.log(middle / least)
    chance = past + chance * (1 - past)
    if chance < 0.5:
        return float(least * (middle / least) ** (2 * chance))
    return float(middle * (limit / middle) ** (2 * chance - 1))


def _luck(text: str) -> float:
    """A normal deviate that follows from a text."""
    even = int.from_bytes(blake2b(text.encode(), digest_size=6).digest())
    return _NORMAL.inv_cdf((even + 0.5) / (1 << 48))


def _evenly(draw: int) -> float:
    """1/2, 1/10, 9/10, then 1/2, 1/4, 3/4, 1/8, …: wherever the row ends, it covers 0 to 1 evenly (van der Corput)."""
    if draw < len(_FIRST):
        return _FIRST[draw]
    draw -= len(_FIRST)
    number, part, even = draw + 1, 0.5, 0.0
    while number:
        even += part * (number & 1)
        number, part = number >> 1, part / 2
    return even
