"""Thousands of jobs that are submitted at once on 64 GPUs, replayed to their end: CPU seconds, and how they grow."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator

from stoker.core.site import Backfill, Preemption, Site, Victims
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.run import replay
from stoker.simulate.trace import Trace, TraceJob

from .measure import Row

RUNS = 1
SIZES = (1_250, 2_500, 5_000, 10_000, 20_000)
WITH_BUDGET, BUDGET_SECONDS = 5_000, 60.0
_NODES = "8x8xV100"
_SITES = {
    "fifo": Site(policy="fifo"),
    "las": Site(policy="las", preemption=Preemption(victims=Victims.RESUMABLE)),
    "gittins": Site(policy="gittins", backfill=Backfill.SKIP, preemption=Preemption(victims=Victims.RESUMABLE)),
}
_GPUS, _OF_SIZE = (1, 2, 4, 8, 16, 32), (60, 15, 10, 10, 3, 2)
_MIDDLE_SECONDS, _SPREAD = 1_200.0, 1.5  # of run times, which are drawn from a log-normal distribution
_USERS = 20


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    for policy, site in _SITES.items():
        before: tuple[int, float] | None = None
        for size in SIZES:
            samples = [_cpu_seconds(_jobs(size), site) for _ in range(runs)]
            median = statistics.median(samples)
            grown = None if before is None else median / before[1] / _n_log_n(before[0], size)
            before = (size, median)
            budget = BUDGET_SECONDS if size == WITH_BUDGET else None
            peer = "" if grown is None else "growth by n log n"
            yield Row(what=f"{policy}: {size:,} jobs at once", samples=samples, budget=budget, peer=peer, ratio=grown)


def _n_log_n(size: int, larger: int) -> float:
    """How many times more it would be."""
    return larger * math.log(larger) / (size * math.log(size))


def _jobs(count: int) -> Trace:
    draw = random.Random(1)
    jobs = [
        TraceJob(
            name=f"j{n:05d}",
            submitted_at=0.0,
            run_seconds=max(1.0, round(_MIDDLE_SECONDS * math.exp(_SPREAD * draw.gauss(0, 1)))),
            gpus_milli=1000 * draw.choices(_GPUS, _OF_SIZE)[0],
            user=f"user{draw.randrange(_USERS)}",
        )
        for n in range(count)
    ]
    return Trace(name="at once", jobs=tuple(jobs))


def _cpu_seconds(trace: Trace, site: Site) -> float:
    begin = time.process_time()
    found = replay(trace, nodes_of_text(_NODES), site)
    seconds = time.process_time() - begin
    assert len(found.runs) == len(trace.jobs), "all have ended"
    return seconds
