"""What went on while a trace was replayed, over time, read from the story as anybody could read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stoker.core.changes import Change, MoveAttempt, MoveJob, NodeSeen, Open, Submit
from stoker.core.ids import job_of_attempt
from stoker.core.job import Attempt, Job
from stoker.core.states import AttemptState, JobState
from stoker.store.base import Line

from .fragments import Fragments, typical_of
from .step_function import Numbers, Steps

STRETCHES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Means over equal stretches of time from 0 to the end of the last job, and over all of it."""

    edges_seconds: Sequence[float]  # one more than there are stretches
    allocated_share: Sequence[float]  # of all GPUs, those that some attempt held
    unusable_share: Sequence[float]  # of all GPUs, those that were idle and of no use to the typical jobs
    waiting_jobs: Sequence[float]
    queue_gpus: Mapping[str, Sequence[float]]  # held by the jobs of each queue of the trace
    mean_allocated_share: float
    mean_fragmentation: float  # of the idle GPUs, the share that is of no use to the typical jobs


def timeline(
    story: Iterable[Line], queue_of: Mapping[str, str], gpus: float, end_seconds: float, *, stretches: int = STRETCHES
) -> Timeline:
    """Read a story. `queue_of`: job id → its queue in the trace."""
    lines = list(story)
    jobs = {line.change.job.id: line.change.job for line in lines if isinstance(line.change, Submit)}
    reader = _Reader(jobs, queue_of)
    for line in lines:
        reader.read(line.change, line.at)
    edges = np.linspace(0.0, end_seconds, stretches + 1)
    ends = edges[[0, -1]]
    idle, unusable = reader.idle.means(ends)[0], reader.unusable.means(ends)[0]
    return Timeline(
        edges_seconds=edges.tolist(),
        allocated_share=_shares(reader.allocated, edges, gpus),
        unusable_share=_shares(reader.unusable, edges, gpus),
        waiting_jobs=reader.waiting.means(edges).tolist(),
        queue_gpus={queue: steps.means(edges).tolist() for queue, steps in sorted(reader.queues.items())},
        mean_allocated_share=float(reader.allocated.means(ends)[0] / gpus),
        mean_fragmentation=float(unusable / idle) if idle > 1e-9 else 0.0,
    )


def _shares(steps: Steps, edges: Numbers, gpus: float) -> list[float]:
    shares: list[float] = (steps.means(edges) / gpus).tolist()
    return shares


class _Reader:
    """Follows a story."""

    def __init__(self, jobs: Mapping[str, Job], queue_of: Mapping[str, str]) -> None:
        self._jobs = jobs
        self._queue_of = queue_of
        self._fragments = Fragments(typical_of(job.spec for job in jobs.values()))
        self._machines = {id: {group.role: group.machine for group in job.spec.groups} for id, job in jobs.items()}
        self._open: dict[str, Attempt] = {}
        self.allocated, self.waiting, self.idle, self.unusable = Steps(), Steps(), Steps(), Steps()
        self.queues: dict[str, Steps] = {}

    def read(self, change: Change, at: float) -> None:
        match change:
            case NodeSeen():
                self._note(at, *self._fragments.see(change.node))
            case Submit():
                self.waiting.add(at, 1)
            case Open():
                self.waiting.add(at, -1)
                self._open[change.attempt.id] = change.attempt
                self._hold(change.attempt, at, 1)
            case MoveAttempt(after=AttemptState.ENDED):
                self._hold(self._open.pop(change.attempt), at, -1)
            case MoveJob(after=JobState.QUEUED):
                self.waiting.add(at, 1)
            case MoveJob(before=JobState.QUEUED):
                self.waiting.add(at, -1)

    def _hold(self, attempt: Attempt, at: float, sign: int) -> None:
        job = job_of_attempt(attempt.id)
        gpus = sign * self._jobs[job].spec.accelerator_milli / 1000
        self.allocated.add(at, gpus)
        self.queues.setdefault(self._queue_of.get(job, ""), Steps()).add(at, gpus)
        self._note(at, *self._fragments.move(attempt, self._machines[job], -sign))

    def _note(self, at: float, idle: float, unusable: float) -> None:
        self.idle.add(at, idle)
        self.unusable.add(at, unusable)
