"""The queue as users see it: whose turn it is, and why. A reader's own World, which follows the story as the loop's does."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.clock import Clock
from stoker.control.loop import REMEMBERED_SECONDS
from stoker.core.ids import split_job_id
from stoker.core.job import Job
from stoker.core.site import Queue as SiteQueue
from stoker.core.states import JobState, Wish
from stoker.core.world import World, apply
from stoker.scheduling.base import Facts
from stoker.scheduling.rules import Rules
from stoker.scheduling.scheduler import Scheduler
from stoker.scheduling.usage import Amounts
from stoker.store.base import Store

_LONGEST_WAY_BEHIND = 2000
"""Changes. From further behind it is quicker to read the world anew."""

_MOST_REMEMBERED = 2000
"""Ended jobs that teach how long jobs run. Fewer than the loop's: a position is no decision, and somebody waits for it."""

_SHARE = 0.05
"""Of the time at the most goes into ordering a long queue; in between, positions are a little old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A queue of the site, and how it stands."""

    queue: SiteQueue
    part: float  # the greatest part of any resource of the site that it holds
    is_full: bool  # it holds all of its own, or more: others go before it
    held: Amounts
    waiting: int
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A job that waits, and where."""

    position: int | None  # 1 is next; None: its time has not come
    job: Job
    share: float  # by weight, of whom it counts for: its queue, or its user there
    key: str  # what the policy goes by, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The queues, and the first that wait."""

    queues: Sequence[Standing]
    waiting: Sequence[Waiter]
    more: int  # that wait, and are not shown


class Queue:
    """Tells positions, and why they are so. Safe to call from any thread."""

    def __init__(
        self, store: Store, rules: Rules, clock: Clock, stopwatch: Callable[[], float] = time.monotonic
    ) -> None:
        """`stopwatch`: how long looking takes is told by it, in seconds."""
        self.rules = rules
        self._stopwatch = stopwatch
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._world = World()
        self._scheduler: Scheduler | None = None
        self._positions: Mapping[str, int] = {}
        self._position = -1
        self._rest_until = 0.0

    def position(self, job: str) -> int | None:
        """How many start no later than this one, itself included: 1 is next. None: it does not wait, or it came just now."""
        with self._lock:
            self._refresh()
            return self._positions.get(job)

    def view(self, *, project: str = "", sees: Callable[[str], bool] = lambda _: True, limit: int = 50) -> View:
        """How every queue stands, and who waits, in the order in which they are looked at. `project`: only its jobs.

        `sees`: whether jobs of a project may be shown.
        """
        with self._lock:
            scheduler = self._refresh()
            jobs, positions = self._world.jobs, self._positions
            paused = [job.id for job in jobs.values() if _waits(job) and job.id not in positions]
            shown = {name: sees(name) and project in ("", name) for name in {split_job_id(id)[0] for id in jobs}}
            waiting = [id for id in (*positions, *sorted(paused)) if shown[split_job_id(id)[0]]]
            return View(
                queues=self._standings(scheduler),
                waiting=[self._waiter(scheduler, jobs[id]) for id in waiting[:limit]],
                more=max(0, len(waiting) - limit),
            )

    def _waiter(self, scheduler: Scheduler, job: Job) -> Waiter:
        now, queue, usage = self._clock.now(), job.spec.queue, scheduler.state.usage
        facts = Facts(job, None, now, scheduler.state.history)
        return Waiter(
            position=self._positions.get(job.id),
            job=job,
            share=usage.share(queue, usage.sharer(queue, job.owner), now),
            key=self.rules.policy_of(queue).tells(facts),
        )

    def _standings(self, scheduler: Scheduler) -> list[Standing]:
        """The queues of the site, and those that it has no more while somebody is in them."""
        usage, jobs = scheduler.state.usage, self._world.jobs.values()
        waiting = Counter(job.spec.queue for job in jobs if _waits(job))
        running = Counter(job.spec.queue for job in jobs if job.state is JobState.ACTIVE)
        names = dict.fromkeys((*self.rules.site.queues, *sorted({*waiting, *running})))
        found = []
        for name in names:
            queue = self.rules.site.queues.get(name) or SiteQueue(name=name)
            found.append(
                Standing(
                    queue=queue,
                    part=usage.part(name),
                    is_full=usage.borrows(queue),
                    held=usage.held_of_all(name),
                    waiting=waiting[name],
                    running=running[name],
                )
            )
        return found

    def _refresh(self) -> Scheduler:
        """Look again if there is news, but not all the time."""
        scheduler = self._scheduler
        if scheduler is None or (self._position != self._store.position() and self._stopwatch() >= self._rest_until):
            start = self._stopwatch()
            scheduler = self._caught_up()
            ordered = scheduler.order(self._world, self._clock.now())
            self._positions = {job: place for place, job in enumerate(ordered, start=1)}
            self._position = self._world.position
            end = self._stopwatch()
            self._rest_until = end + (end - start) / _SHARE if end - start > 0.01 else 0.0
        return scheduler

    def _caught_up(self) -> Scheduler:
        scheduler, world = self._scheduler, self._world
        if scheduler is None or self._store.position() - world.position > _LONGEST_WAY_BEHIND:
            now = self._clock.now()
            self._scheduler = scheduler = Scheduler(self.rules)
            scheduler.learn(self._store.ended(now - REMEMBERED_SECONDS, _MOST_REMEMBERED), now)
            self._world = self._store.world()
            return scheduler
        for line in self._store.story(after=world.position):
            apply(world, line.change)
            scheduler.see(line.change)
            world.position = line.n
        return scheduler


def _waits(job: Job) -> bool:
    return job.state is JobState.QUEUED and job.wish is Wish.RUN
