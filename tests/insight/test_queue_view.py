"""Positions in the queue, as the policy orders it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.core.changes import Cancel, MoveAttempt, MoveJob, NodeSeen, Open, Submit
from stoker.core.site import Queue as SiteQueue
from stoker.core.site import Quota, Site
from stoker.core.states import AttemptState, Cause, JobState
from stoker.insight import queue_view as queue_module
from stoker.insight.queue_view import Queue
from stoker.scheduling.rules import rules_of
from stoker.store.base import Line
from stoker.store.memory import MemoryStore
from tests.builders import House, a_house, a_job, a_node, an_attempt


class CountingStore(MemoryStore):
    """Counts how often the whole world is read, and how many lines of the story."""

    worlds = 0
    lines = 0

    def world(self):  # type: ignore[no-untyped-def]
        self.worlds += 1
        return super().world()

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        for line in super().story(job, after, limit):
            self.lines += 1
            yield line


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(ManualClock())


def _no_time() -> float:
    """A machine on which looking takes no time, so that nothing is ever a little old."""
    return 0.0


def a_queue(store: MemoryStore) -> Queue:
    return Queue(store, rules_of(Site()), ManualClock(), stopwatch=_no_time)


def test_the_first_to_come_is_the_first(store: CountingStore) -> None:
    queue = a_queue(store)
    store.commit([Submit(job=a_job(name, at=at)) for at, name in enumerate("abc")], by="u")
    assert [queue.position(f"p/{name}") for name in "abc"] == [1, 2, 3]
    assert queue.position("p/none") is None


def test_who_runs_or_is_to_be_cancelled_has_no_position(tmp_path: Path) -> None:
    house: House = a_house(tmp_path, "n0:4")
    queue = a_queue(house.store)  # type: ignore[arg-type]
    for name in ("a_runs", "b_waits", "c_leaves", "d_last"):
        house.submit(name, gpus=4)
    house.tick()
    house.commands.cancel("p/c_leaves", owner="u")
    assert [queue.position(f"p/{n}") for n in ("a_runs", "b_waits", "c_leaves", "d_last")] == [None, 1, None, 2]


def test_it_follows_the_story_and_reads_the_world_once(store: CountingStore) -> None:
    queue = a_queue(store)
    for n in range(10):
        store.commit([Submit(job=a_job(f"j{n}", at=n))], by="u")
        assert queue.position(f"p/j{n}") == n + 1
    assert queue.position("p/j3") == 4  # nothing new: nothing read
    assert (store.worlds, store.lines) == (1, 9)


def test_from_far_behind_it_reads_the_world_anew(store: CountingStore) -> None:
    queue = a_queue(store)
    store.commit([Submit(job=a_job("first", at=0))], by="u")
    assert queue.position("p/first") == 1
    many = queue_module._LONGEST_WAY_BEHIND + 1
    store.commit([Submit(job=a_job(f"j{n}", at=n + 1)) for n in range(many)], by="u")
    assert queue.position(f"p/j{many - 1}") == many + 1
    assert (store.worlds, store.lines) == (2, 0)


def test_how_the_queues_stand_and_who_waits(tmp_path: Path) -> None:
    quotas = {"T4": Quota(nominal_milli=4000), "CPU": Quota(nominal_milli=9000)}
    site = Site(
        queues={
            "default": SiteQueue(name="default"),
            "lab": SiteQueue(name="lab", weight=2.0, policy="fifo", quotas=quotas),
        }
    )
    house = a_house(tmp_path, "n0:4 n1:4", site=site)
    queue = Queue(house.store, rules_of(site), house.clock, stopwatch=_no_time)
    house.submit("runs", gpus=4, queue="lab")
    house.tick()
    house.submit("waits", gpus=4, queue="lab")
    house.submit("high", gpus=4, workers=1, priority=7)
    house.tick(seconds=60)
    view = queue.view()
    default, lab = view.queues
    assert (default.running, default.waiting, default.part, default.is_full) == (0, 1, 0.0, False)
    assert (lab.running, lab.waiting, lab.part, lab.is_full) == (1, 1, 0.5, True)
    assert (lab.held["T4"], lab.held["CPU"]) == (4000, 1000)
    found = [(waiter.position, waiter.job.id, waiter.key) for waiter in view.waiting]
    assert found == [(1, "p/high", "priority 7"), (2, "p/waits", "")]
    reasons = [waiter.job.waits.code for waiter in view.waiting if waiter.job.waits]
    assert reasons == ["NO_ROOM", "QUOTA"]


def test_who_has_gone_leaves_nothing_behind(store: CountingStore) -> None:
    queue = a_queue(store)
    for n in range(5):
        store.commit([Submit(job=a_job(f"j{n}"))], by="u")
        assert queue.position(f"p/j{n}") == 1
        store.commit([Cancel(job=f"p/j{n}", why="", at=1.0)], by="u")
        moved = MoveJob(job=f"p/j{n}", before=JobState.QUEUED, after=JobState.CANCELLED, at=1.0)
        store.commit([moved], by="loop")
        assert queue.position(f"p/j{n}") is None
    assert not queue._scheduler._newcomers and not queue._scheduler._live


def test_a_part_of_the_queue(store: CountingStore) -> None:
    queue = a_queue(store)
    store.commit([Submit(job=a_job(name, at=at)) for at, name in enumerate("abc")], by="u")
    store.commit([Submit(job=replace(a_job("d", at=0.5), id="q/d"))], by="u")
    view = queue.view(limit=2)
    assert ([waiter.job.id for waiter in view.waiting], view.more) == (["p/a", "q/d"], 2)
    view = queue.view(project="q")
    assert ([(waiter.position, waiter.job.id) for waiter in view.waiting], view.more) == ([(2, "q/d")], 0)
    assert queue.view(limit=0).more == 4


def test_who_is_paused_waits_without_a_position_and_a_queue_that_is_gone_is_shown(store: CountingStore) -> None:
    queue = a_queue(store)
    paused, moved = a_job("paused"), a_job("moved", queue="of_old")
    store.commit([Submit(job=replace(paused, not_before=1e12)), Submit(job=moved)], by="u")
    view = queue.view()
    assert [(waiter.position, waiter.job.id) for waiter in view.waiting] == [(1, "p/moved"), (None, "p/paused")]
    assert [(standing.queue.name, standing.waiting) for standing in view.queues] == [("default", 1), ("of_old", 1)]


def test_whose_pause_is_over_stands_in_line_again() -> None:
    clock = ManualClock()
    store = CountingStore(clock)
    store.commit([NodeSeen(node=a_node("n0", 1)), Submit(job=a_job("a", gpus=1))], by="u")
    queue = Queue(store, rules_of(Site()), clock, stopwatch=_no_time)
    assert queue.position("p/a") == 1
    now, failed = clock.now(), an_attempt(a_job("a", gpus=1), placed_at=clock.now())
    moves = [
        MoveAttempt(
            attempt="p/a.1", before=AttemptState.RUNNING, after=AttemptState.STOPPING, at=now, cause=Cause.NODE_LOST
        ),
        MoveAttempt(attempt="p/a.1", before=AttemptState.STOPPING, after=AttemptState.ENDED, at=now),
        MoveJob(job="p/a", before=JobState.ACTIVE, after=JobState.QUEUED, at=now, counted=1, not_before=now + 10),
    ]
    store.commit([Open(attempt=failed), *moves], by="loop")
    assert queue.position("p/a") is None
    clock.advance(20.0)
    store.commit([Submit(job=a_job("b", gpus=1, at=clock.now()))], by="u")
    assert (queue.position("p/a"), queue.position("p/b")) == (1, 2)
