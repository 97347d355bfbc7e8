"""What became of the jobs of a replay, in figures.

- **JCT** (job completion time): end less submission.
- **Wait**: JCT less the run time alone, so it holds queueing, what preemptions and restarts cost, and slowness.
  **Start wait**: first start less submission.
- **Percentile** q of n figures: the one at place `int(q n)`, counted from 0, in ascending order, as Muri's "p99" does.
- **Bounded slowdown**: max(1, JCT / max(run time, 10 s)), so that jobs of a moment do not decide the mean.
- **Finish-time fairness** (FTF): JCT / (run time alone × max(1, jobs of the trace / GPUs)), as Shockwave states it. Above
  1.05 a job counts as treated unfairly.
- **Makespan**: the end of the last job, counted from the trace's zero.
- **GPU-hours**: gangs times run times alone; **utilisation** is theirs of all GPUs over the makespan.

Jobs that had not ended are in none of the figures but `unfinished`: where it is not 0, the others flatter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.bounds import Bounds, bounds

Numbers = NDArray[np.float64]

SHORTEST_RUN_SECONDS = 10.0  # of the bounded slowdown
UNFAIR_FTF = 1.05
SECONDS_IN_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of one job."""

    name: str
    queue: str = ""
    submitted_at: float
    first_started_at: float
    ended_at: float
    run_seconds: float  # alone and without waiting, as the trace says
    gpus_milli: int
    preemptions: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Some figures as their mean, two percentiles and the largest."""

    mean: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of some jobs: of all, or of a queue."""

    jobs: int
    jct_seconds: Spread
    wait_seconds: Spread
    start_wait_seconds: Spread
    bounded_slowdown: Spread
    ftf: Spread
    unfair_share: float  # of the jobs, those with an FTF above 1.05
    makespan_seconds: float
    gpu_hours: float
    preemptions_per_job: float
    failures_per_job: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of a replay, as they are and against what no scheduler can beat."""

    gpus: float
    all: Summary
    queues: Mapping[str, Summary] = field(default_factory=dict)
    unfinished: int = 0
    utilisation: float
    bounds: Bounds
    average_jct_ratio: float  # to the bound: 1 cannot be beaten
    makespan_ratio: float


def measure(runs: Sequence[Run], gpus: float, *, limits: Bounds | None = None, unfinished: int = 0) -> Metrics:
    """The figures of a replay on that many GPUs; `limits` where they are already known.

    Raises BadSpec where nothing ended, so that there is nothing to measure.
    """
    if not runs:
        raise BadSpec([Violation("runs", "no job ended")], fix="replay for longer, or on a larger cluster")
    limits = limits or bounds(runs, gpus)
    table = _Table(runs, gpus)
    everything = table.summary(np.arange(len(runs)))
    queues = np.array([run.queue for run in runs])
    return Metrics(
        gpus=gpus,
        all=everything,
        queues={str(queue): table.summary(np.flatnonzero(queues == queue)) for queue in np.unique(queues)},
        unfinished=unfinished,
        utilisation=everything.gpu_hours * SECONDS_IN_HOUR / (gpus * everything.makespan_seconds),
        bounds=limits,
        average_jct_ratio=everything.jct_seconds.mean / limits.average_jct_seconds,
        makespan_ratio=everything.makespan_seconds / limits.makespan_seconds,
    )


def percentile(figures: Iterable[float], share: float) -> float:
    """The figure at place `int(share n)` of n in ascending order."""
    return _percentile(np.sort(np.fromiter(figures, dtype=np.float64)), share)


class _Table:
    """The runs as columns."""

    def __init__(self, runs: Sequence[Run], gpus: float) -> None:
        def column(values: Iterable[float]) -> Numbers:
            return np.fromiter(values, dtype=np.float64, count=len(runs))

        self._submitted = column(run.submitted_at for run in runs)
        self._ended = column(run.ended_at for run in runs)
        self._run = column(run.run_seconds for run in runs)
        self._jct = self._ended - self._submitted
        self._start_wait = column(run.first_started_at for run in runs) - self._submitted
        self._slowdown = np.maximum(1.0, self._jct / np.maximum(self._run, SHORTEST_RUN_SECONDS))
        self._ftf = self._jct / (self._run * max(1.0, len(runs) / gpus))
        self._gpu_hours = column(run.gpus_milli for run in runs) / 1000 * self._run / SECONDS_IN_HOUR
        self._preemptions = column(run.preemptions for run in runs)
        self._failures = column(run.failures for run in runs)

    def summary(self, rows: NDArray[np.intp]) -> Summary:
        """The figures of some rows. The share that is fair is that of the whole trace."""
        return Summary(
            jobs=len(rows),
            jct_seconds=_spread(self._jct[rows]),
            wait_seconds=_spread((self._jct - self._run)[rows]),
            start_wait_seconds=_spread(self._start_wait[rows]),
            bounded_slowdown=_spread(self._slowdown[rows]),
            ftf=_spread(self._ftf[rows]),
            unfair_share=float((self._ftf[rows] > UNFAIR_FTF).mean()),
            makespan_seconds=float(self._ended[rows].max()),
            gpu_hours=float(self._gpu_hours[rows].sum()),
            preemptions_per_job=float(self._preemptions[rows].mean()),
            failures_per_job=float(self._failures[rows].mean()),
        )


def _spread(figures: Numbers) -> Spread:
    ordered = np.sort(figures)
    return Spread(
        mean=float(figures.mean()),
        p90=_percentile(ordered, 0.9),
        p99=_percentile(ordered, 0.99),
        largest=float(ordered[-1]),
    )


def _percentile(ordered: Numbers, share: float) -> float:
    return float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])
