"""First come, first served, within priorities."""

from __future__ import annotations

from collections.abc import Sequence

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
        if any(other.spec.pool == job.spec.pool and _wants(other.spec) & _wants(job.spec) for other in waiting):
            # Names nobody: who is next changes all the time, and every change of a reason is written down.
            return Reason(
                code="BEHIND",
                text="others that want the same kind of machine are before it in the queue",
                action="stoker jobs list shows them; a higher scheduling.priority goes before them",
            )
        return None


def _wants(spec: JobSpec) -> frozenset[str]:
    return spec.accelerator_types or frozenset({"cpu"})
