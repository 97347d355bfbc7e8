"""Positions in the queue, as the policy orders it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.control import queue as queue_module
from stoker.control.queue import Queue
from stoker.core.changes import Submit
from stoker.core.site import Site
from stoker.scheduling.rules import rules_of
from stoker.store.base import Line
from stoker.store.memory import MemoryStore
from tests.builders import House, a_house, a_job


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


def a_queue(store: MemoryStore) -> Queue:
    return Queue(store, rules_of(Site()), ManualClock())


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
