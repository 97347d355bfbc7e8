"""First come, first served, within priorities."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.job import Job, Reason
from stoker.core.spec import ANY_ACCELERATOR, JobSpec
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
        if any(other.spec.pool == job.spec.pool and _want_the_same(other.spec, job.spec) for other in waiting):
            # Names nobody: who is next changes all the time, and every change of a reason is written down.
            return Reason(
                code="BEHIND",
                text="others that want the same kind of machine are before it in the queue",
                action="stoker jobs list shows them; a higher scheduling.priority goes before them",
            )
        return None


def _want_the_same(one: JobSpec, other: JobSpec) -> bool:
    """Whether they compete for one kind of machine. Who takes any accelerator competes with everybody who wants one."""
    mine, theirs = one.accelerator_types, other.accelerator_types
    if not mine or not theirs:
        return not mine and not theirs
    return bool(mine & theirs) or ANY_ACCELERATOR in mine | theirs
