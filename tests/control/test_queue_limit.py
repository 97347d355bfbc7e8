"""Nobody fills the queue for all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.control.queue_limit import QueueLimit
from stoker.core.changes import Cancel, Submit
from stoker.core.errors import TooMany
from stoker.store.memory import MemoryStore
from tests.builders import a_job


def test_so_many_may_wait_and_when_one_has_gone_another_may_come(tmp_path: Path) -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    store.commit([Submit(job=a_job("before", owner="ada"))], by="ada")
    room = QueueLimit(store, clock, 3)
    for number in range(2):
        room.take("ada")
        store.commit([Submit(job=a_job(f"j{number}", owner="ada"))], by="ada")
    with pytest.raises(TooMany, match="3 jobs of ada wait"):
        room.take("ada")
    room.take("bob")
    store.commit([Cancel(job="p/before", why="", at=clock.now())], by="ada")
    world = store.world()
    assert "p/before" in world.jobs, "a wish alone ends no job: it still waits until the loop has looked"
    clock.advance(10)
    with pytest.raises(TooMany):
        room.take("ada")


def test_without_a_limit_nobody_is_counted(tmp_path: Path) -> None:
    room = QueueLimit(MemoryStore(ManualClock()), ManualClock(), 0)
    for _ in range(1000):
        room.take("ada")


def test_what_has_started_waits_no_more() -> None:
    """Counted anew when the limit is reached, but not more often than every ten seconds."""
    clock = ManualClock()
    store = MemoryStore(clock)
    room = QueueLimit(store, clock, 2)
    room.take("ada")
    room.take("ada")  # neither was written down: both were refused for other reasons
    with pytest.raises(TooMany):
        room.take("ada")
    clock.advance(10)
    room.take("ada")
