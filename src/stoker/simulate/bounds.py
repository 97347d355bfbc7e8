"""What no scheduler can beat: limits of the makespan and of the average job completion time (JCT).

Job j is submitted at r, wants a gang of g GPUs for p seconds, and so is g p of work; there are M GPUs. A gang is rigid, has
its GPUs for itself and gets no faster with more. All limits hold for schedules that preempt and migrate at no cost, so
for every other. They do not hold where jobs share a GPU, are elastic, or run at speeds that differ between nodes.

**Makespan**, the end of the last job counted from 0, is at least

1. the largest r + p;
2. for every moment t, t + (work submitted from t on) / M;
3. the same for the gangs that want more than half of the GPUs, of which no two run at once: t + (their p from t on).

**Average JCT** is the sum of the ends less that of the submissions; the sum of ends is at least

1. that of r + p, so the average JCT at least the mean run time;
2. that of max(A_k, B_k) over all k. A_k is the k-th end where one machine of speed M always serves the least remaining
   work (SRPT), which at every time has finished as many jobs as can be; B_k is the k-th smallest r + p;
3. half the sum of p, and the least possible sum of mean busy times. A job that ends at C never ran at more than g GPUs, so
   the mean moment of its work is at most C - p/2. One machine of speed M that always serves the job of least total work
   has the least sum of such moments (Goemans).

Each is one pass over a heap, so O(n log n). A job that wants no GPU ends at r + p whatever happens.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import BadSpec, Violation

Numbers = NDArray[np.float64]


class Work(Protocol):
    """What a job is to a limit."""

    @property
    def name(self) -> str: ...
    @property
    def submitted_at(self) -> float: ...
    @property
    def run_seconds(self) -> float: ...
    @property
    def gpus_milli(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits for some jobs on so many GPUs. The average JCT is the largest of three."""

    gpus: float
    makespan_seconds: float  # from 0
    mean_run_seconds: float
    order_statistic_seconds: float
    mean_busy_seconds: float

    @property
    def average_jct_seconds(self) -> float:
        """What the average JCT cannot go below."""
        return max(self.mean_run_seconds, self.order_statistic_seconds, self.mean_busy_seconds)


def bounds(jobs: Sequence[Work], gpus: float) -> Bounds:
    """The limits of these jobs on that many GPUs. Raises BadSpec where a job wants more than there are."""
    too_large = [job for job in jobs if job.gpus_milli > 1000 * gpus]
    if too_large or not jobs:
        what = (
            f"{len(too_large)} jobs want more, the first is {too_large[0].name}" if too_large else "there are no jobs"
        )
        raise BadSpec(
            [Violation("gpus", f"{gpus:g} GPUs: {what}")], fix="leave these jobs out, or take a larger cluster"
        )
    fields = [(job.submitted_at, job.run_seconds, job.gpus_milli / 1000) for job in jobs]
    release, run, gang = np.array(fields, dtype=np.float64).T
    earliest = release + run
    size = gang * run
    some = gang > 0
    waiting = float((release[~some] + run[~some]).sum())  # the sum of ends of those that want no GPU
    busy = _mean_busy(release[some], size[some], gpus) + float(run[some].sum()) / 2 + waiting
    ends = np.maximum(_srpt_ends(release, size, gpus), np.sort(earliest))
    return Bounds(
        gpus=gpus,
        makespan_seconds=_makespan(release, run, gang, gpus),
        mean_run_seconds=float(run.mean()),
        order_statistic_seconds=float((ends.sum() - release.sum()) / len(jobs)),
        mean_busy_seconds=float((busy - release.sum()) / len(jobs)),
    )


def _makespan(release: Numbers, run: Numbers, gang: Numbers, gpus: float) -> float:
    large = gang > gpus / 2
    return max(
        float((release + run).max()),
        _from_each_moment(release, gang * run / gpus),
        _from_each_moment(release[large], run[large]),
    )


def _from_each_moment(release: Numbers, seconds: Numbers) -> float:
    """The largest t + (all seconds submitted from t on)."""
    if not release.size:
        return 0.0
    order = np.argsort(release, kind="stable")
    return float((release[order] + np.cumsum(seconds[order][::-1])[::-1]).max())


def _srpt_ends(release: Numbers, size: Numbers, speed: float) -> Numbers:
    """When jobs end on one machine of this speed that always serves the least remaining work, in order."""
    order = np.argsort(release, kind="stable")
    ends: list[float] = []
    heap: list[float] = []
    now = 0.0
    times, seconds = release[order].tolist(), (size[order] / speed).tolist()
    for at, need in zip([*times, float("inf")], [*seconds, 0.0], strict=True):
        while heap and now < at:
            least = heap[0]
            if now + least > at:
                heapq.heapreplace(heap, least - (at - now))
                break
            now += least
            ends.append(now)
            heapq.heappop(heap)
        now = at
        heapq.heappush(heap, need)
    return np.sort(np.array(ends))


def _mean_busy(release: Numbers, size: Numbers, speed: float) -> float:
    """The sum of the mean moments at which jobs are served, where the job of least total work always goes first."""
    order = np.argsort(release, kind="stable")
    heap: list[tuple[float, float]] = []  # (total, remaining)
    total_moments = 0.0
    now = 0.0
    times, seconds = release[order].tolist(), (size[order] / speed).tolist()
    for at, need in zip([*times, float("inf")], [*seconds, 0.0], strict=True):
        while heap and now < at:
            total, remaining = heap[0]
            served = min(remaining, at - now)
            total_moments += (now + served / 2) * (served / total)
            now += served
            if served < remaining:
                heapq.heapreplace(heap, (total, remaining - served))
                break
            heapq.heappop(heap)
        now = at
        if need > 0:
            heapq.heappush(heap, (need, need))
    return total_moments
