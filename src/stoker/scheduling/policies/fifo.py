"""First come, first served, within priorities."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.ids import split_job_id
from stoker.core.job import Job, Reason
from stoker.core.spec import JobSpec
from stoker.core.world import World


class Fifo:
    """Greater priority first, then who was submitted earlier, then by id.

    Whoever waits holds back those behind who want the same kind of machine in the same pool, so that a big gang is not
    starved by small ones; who wants something else goes ahead (AI Platform v1: priority matters among jobs that want the
    same accelerator type).
    """

    def order(self, world: World, jobs: Sequence[Job], now: float) -> list[Job]:
        """The queued jobs, first to be placed first."""
        return sorted(jobs, key=lambda job: (-job.spec.priority, job.submitted_at, job.id))

    def admits(self, job: Job, waiting: Sequence[Job]) -> Reason | None:
        """Held back by the first who waits for the same kind of machine."""
        for other in waiting:
            if other.spec.pool == job.spec.pool and _wants(other.spec) & _wants(job.spec):
                name = split_job_id(other.id)[1]
                return Reason(
                    code="BEHIND",
                    text=f"{name} is before it in the queue and waits for the same kind of machine",
                    action=f"wait, cancel {name}, or submit with a higher scheduling.priority",
                )
        return None


def _wants(spec: JobSpec) -> frozenset[str]:
    return spec.accelerator_types or frozenset({"cpu"})
