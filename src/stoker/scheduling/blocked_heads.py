"""The jobs at the head of their kind: what is kept for them, and who may pass them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoker.core.job import Job
from stoker.core.site import Backfill
from stoker.core.world import World

from .reserve import Reservation, expected_seconds, reserve
from .scheduler_state import SchedulerState
from .shapes import Shape


@dataclass(slots=True)
class Block:
    """One that waits at the head of those who want the same kind of machine."""

    job: Job
    shape: Shape
    reservation: Reservation | None
    is_overdue: bool = False  # it has waited so long that nobody may touch what is kept for it


class BlockedHeads:
    """The heads of one round."""

    def __init__(self, state: SchedulerState, world: World, now: float, look_again: Callable[[float], None]) -> None:
        """`look_again`: asks for another round at a moment."""
        self._state = state
        self._rules = state.rules
        self._world = world
        self._now = now
        self._look_again = look_again
        self.blocks: list[Block] = []
        self._kept_out: dict[tuple[str, Shape], tuple[object, float]] = {}
        """(Queue, shape) → from what state one found no place beside what is kept, and how long that one will likely run."""

    def passes(self, job: Job, shape: Shape, block: Block) -> bool:
        """Whether one that waits before it does not hold it back: that one gives way to it, or it wants its own back."""
        if block.job.spec.preemptible and not job.spec.preemptible:
            return True
        queue = self._rules.queue(job.spec.queue)
        owns = bool(queue.cohort) and self._state.usage.is_within_its_own(queue, shape.amounts)
        return owns and block.job.spec.queue != job.spec.queue

    def put(self, job: Job, shape: Shape) -> None:
        """Let a job that found no room stand at the head of its kind."""
        site, overdue_at = self._rules.site, job.queued_since + self._rules.site.head_seconds
        is_overdue = self._now >= overdue_at
        if site.backfill is Backfill.SKIP and not is_overdue:
            self._look_again(overdue_at)
            return
        reservation = None if site.backfill is Backfill.STRICT else self._reservation(job)
        if reservation is None and site.pools and site.backfill is not Backfill.STRICT and not is_overdue:
            self._look_again(overdue_at)  # it waits for machines of a pool, of which nobody knows when they come
            return
        self.blocks.append(Block(job, shape, reservation, is_overdue))
        if not is_overdue:
            self._look_again(overdue_at)
        if reservation is not None:
            self._look_again(reservation.starts_at)

    def put_unpaid(self, job: Job, shape: Shape) -> None:
        """Keep for a job whose project may pay for no more what costs nothing, once it is overdue. Closes what costs."""
        self._state.free.close_of_pools(True)
        overdue_at = job.queued_since + self._rules.site.head_seconds
        if self._now < overdue_at:
            self._look_again(overdue_at)
            return
        reservation = self._reservation(job)
        if reservation is not None:  # or such machines could never hold it, and nobody has to wait for that
            self.blocks.append(Block(job, shape, reservation, is_overdue=True))
            self._look_again(reservation.starts_at)

    def _reservation(self, job: Job) -> Reservation | None:
        """What is kept for it. It stays until its time has come, so that nothing moves it on and on."""
        found = self._state.reservations.get(job.id)
        if found is None or found.starts_at <= self._now:
            found = reserve(job, self._world, self._state.free, self._rules.placer, self._state.ends, self._now)
            if found is not None:
                self._state.reservations[job.id] = found
        return found

    def note_kept_out(self, job: Job, shape: Shape, state: object) -> None:
        """It has found no place beside what is kept for others. `state`: what else changes where it may be."""
        seconds = expected_seconds(job, self._state.history)
        self._kept_out[job.spec.queue, shape] = ((state, len(self.blocks)), seconds)

    def keep_out(self, job: Job, shape: Shape, state: object) -> bool:
        """Whether from the same state one of its shape was kept out that will likely run no longer.

        To who runs longer the same nodes are closed, or more.
        """
        known, seconds = self._kept_out.get((job.spec.queue, shape), (None, 0.0))
        return known == (state, len(self.blocks)) and expected_seconds(job, self._state.history) >= seconds

    def kept_from(self, job: Job, blocks: Iterable[Block]) -> set[str]:
        """The nodes that are kept for those before it, but for one that is gone by then, or gives way at any time."""
        closed: set[str] = set()
        for block in blocks:
            kept = block.reservation
            if kept is None:
                continue
            if not block.is_overdue:
                if job.spec.preemptible and not block.job.spec.preemptible:
                    continue
                if self._now + expected_seconds(job, self._state.history) <= kept.starts_at:
                    continue
            closed |= kept.nodes
        return closed
