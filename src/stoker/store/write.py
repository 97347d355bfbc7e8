"""What each change does to the rows. Every store goes through `write`, so that they cannot differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stoker.core import changes as c
from stoker.core.job import Attempt, Job
from stoker.core.node import Node, NodeRecord
from stoker.core.states import AttemptState, JobState
from stoker.core.world import attempt_after, job_after, record_after


class Rows(Protocol):
    """Rows within one transaction. The reads raise NotFound."""

    def read_job(self, job: str) -> Job: ...
    def insert_job(self, job: Job) -> None: ...  # raises AlreadyExists
    def update_job(self, job: Job) -> None: ...
    def hide_job(self, job: str) -> None: ...  # reads find it no more, its id stays taken
    def read_attempt(self, attempt: str) -> Attempt: ...
    def insert_attempt(self, attempt: Attempt) -> None: ...  # raises IllegalMove if the job has a live one
    def update_attempt(self, attempt: Attempt) -> None: ...
    def hold(self, attempt: str, devices: Iterable[tuple[str, str]], milli: int) -> None:  # so much of each
        """Raises IllegalMove for a device that has not so much left."""

    def release(self, attempt: str) -> None: ...
    def put_node(self, node: Node) -> None: ...
    def delete_node(self, name: str) -> None: ...
    def read_record(self, node: str) -> NodeRecord | None: ...
    def put_record(self, node: str, record: NodeRecord | None) -> None: ...  # None: nothing is kept any more


def write(rows: Rows, change: c.Change) -> None:
    """Carry one change into the rows."""
    match change:
        case c.Submit():
            rows.insert_job(change.job)
        case c.NodeSeen():
            rows.put_node(change.node)
        case c.NodeGone():
            rows.delete_node(change.name)
        case c.CordonNode() | c.UncordonNode() | c.NodeFailed():
            rows.put_record(change.node, record_after(rows.read_record(change.node), change))
        case c.Open():
            job = job_after(rows.read_job(change.attempt.job), change)
            rows.update_job(job)
            rows.insert_attempt(change.attempt)
            machines = {group.role: group.machine for group in job.spec.groups}
            for place in change.attempt.placements:
                if place.devices:
                    milli = machines[place.role].milli_of_each
                    rows.hold(change.attempt.id, [(place.node, device) for device in place.devices], milli)
        case c.Cancel() | c.Release() | c.Relabel() | c.OrderMachines() | c.MoveJob() | c.Credit():
            rows.update_job(job_after(rows.read_job(change.job), change))
        case c.Forget():
            rows.hide_job(job_after(rows.read_job(change.job), change).id)
        case c.Explain():
            job = rows.read_job(change.job)
            if job.state is JobState.QUEUED:
                rows.update_job(job_after(job, change))
        case c.Ask() | c.Note() | c.MoveAttempt():
            attempt = attempt_after(rows.read_attempt(change.attempt), change)
            rows.update_attempt(attempt)
            if attempt.state is AttemptState.ENDED:
                rows.release(attempt.id)
            if isinstance(change, c.MoveAttempt) and change.after is AttemptState.RUNNING:
                rows.update_job(job_after(rows.read_job(attempt.job), change))
