"""How true forecasts are: of jobs of the Philly trace that waited, what was said at their submission, and when they started.

Ten days under fifo with EASY backfill on 512 GPUs. Nominal: four of five start within the interval. For information: no
budget is due. What is sampled is drawn with a seed, so two runs differ by the machine's load alone, and hardly by that.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.changes import MoveJob, Open, Submit
from stoker.core.site import Site
from stoker.core.states import FINAL_JOB_STATES
from stoker.core.world import World, apply
from stoker.scheduling.history import History
from stoker.scheduling.rules import Rules, rules_of
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.estimate import estimate
from stoker.simulate.forecast import Budget
from stoker.simulate.future import Now, adopted
from stoker.simulate.run import replay
from stoker.simulate.run_times import Known
from stoker.simulate.trace import read_trace
from stoker.store.base import Line

from .measure import Row

RUNS = 1
FOLDER = Path(os.environ.get("STOKER_TRACES") or Path(__file__).parents[2] / "shared" / "traces") / "philly"
FIRST_DAY, DAYS, LEARNING_DAYS = 25, 10, 3
SAMPLE = 120
NODES = "64x8xV100"
SITE = Site(policy="fifo")
SHORTEST_WAIT_SECONDS = 60.0
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of one job's wait, in seconds, and what came."""

    low: float
    middle: float
    high: float  # infinity: it was not known
    waited: float
    draws: int
    took: float

    @property
    def is_within(self) -> bool:
        """Whether it started within the interval, to the second."""
        return self.low - 1 <= self.waited <= self.high + 1


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    if not FOLDER.is_dir():
        yield Row(
            what="forecasts on the Philly trace", note=f"no trace in {FOLDER}; name its parent with $STOKER_TRACES"
        )
        return
    trace = read_trace(FOLDER).window(FIRST_DAY * _DAY, (FIRST_DAY + DAYS) * _DAY)
    story = replay(trace, nodes_of_text(NODES), SITE).story
    told = told_of(story, SAMPLE, learning_seconds=LEARNING_DAYS * _DAY)
    yield from rows(f"{len(trace.jobs):,} Philly jobs, {len(told)} that waited", told)


def rows(of: str, told: Sequence[Told]) -> Iterator[Row]:
    """What these forecasts were worth."""

    def share(of_them: Iterator[bool]) -> float:
        return 100 * sum(of_them) / len(told)

    known = [one for one in told if math.isfinite(one.middle)]
    yield Row(
        what=f"{of}: started within the interval (nominal 80)", unit="%", samples=[share(o.is_within for o in told)]
    )
    yield Row(what="… earlier than it (nominal 10)", unit="%", samples=[share(o.waited < o.low - 1 for o in told)])
    yield Row(what="… later than it (nominal 10)", unit="%", samples=[share(o.waited > o.high + 1 for o in told)])
    yield Row(what="… the middle is off by", unit="s", samples=[abs(one.middle - one.waited) for one in known])
    off = [100 * abs(one.middle - one.waited) / one.waited for one in known]
    yield Row(what="… the same of the wait", unit="%", samples=off)
    yield Row(what="… the wait", unit="s", samples=[one.waited for one in told])
    widths = [100 * (one.high - one.low) / max(1.0, one.middle) for one in known if math.isfinite(one.high)]
    yield Row(what="… the interval is as wide as, of the middle", unit="%", samples=widths)
    yield Row(what="… futures played", unit="jobs", samples=[float(one.draws) for one in told])
    yield Row(what="… one forecast takes", unit="s", samples=[one.took for one in told])


def told_of(story: Sequence[Line], sample: int, *, learning_seconds: float, budget: Budget | None = None) -> list[Told]:
    """What is said at the submission of some that waited, going through a story as the server would."""
    budget = budget or Budget(seconds=30.0)  # the work binds, whatever else the machine does
    submitted = {line.change.job.id: line.change.job.submitted_at for line in story if isinstance(line.change, Submit)}
    opened: dict[str, float] = {}
    for line in story:
        if isinstance(line.change, Open):
            opened.setdefault(line.change.attempt.job, line.change.attempt.placed_at)
    waits = {job: opened[job] - at for job, at in submitted.items() if job in opened and at > learning_seconds}
    waited = sorted(job for job, seconds in waits.items() if seconds > SHORTEST_WAIT_SECONDS)
    chosen = set(random.Random(1).sample(waited, min(sample, len(waited))))
    world, history, rules, told = World(), History(), rules_of(SITE), list[Told]()
    for line in story:
        change = line.change
        if isinstance(change, MoveJob) and change.after in FINAL_JOB_STATES:
            job = world.jobs[change.job]
            history.add(job, job.held_seconds + change.held_seconds)
        apply(world, change)
        if isinstance(change, Submit) and change.job.id in chosen:
            told.append(_told(world, history, rules, change.job.id, waits[change.job.id], budget))
    return told


def _told(world: World, history: History, rules: Rules, job: str, waited: float, budget: Budget) -> Told:
    at = world.jobs[job].submitted_at
    begin = time.perf_counter()
    known = Known.of(history, world.jobs.values())
    now = Now(world=adopted(world, at), rules=rules, known=known, at=at)
    found = estimate(now, now.world.jobs[job], budget)
    low, middle, high = (
        math.inf if moment is None else moment - at for moment in (found.at.low, found.at.middle, found.at.high)
    )
    return Told(low, middle, high, waited, found.draws, time.perf_counter() - begin)
