"""Who holds GPUs and does nothing with them: found, warned of, kept by its user, and stopped by the site's rules alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.core.changes import Relabel
from stoker.core.job import KEEP
from stoker.core.states import JobState, ReplicaState, Wish
from stoker.gpu.device import Device
from stoker.gpu.reading import Reading
from stoker.insight.idle import IdleRules, IdleWatch
from stoker.insight.live_world import LiveWorld
from stoker.sampling.history import History
from stoker.sampling.monitor import COUNTERS, Monitor
from stoker.sampling.sample import Sample
from tests.builders import House

WINDOW, STOP = 1800.0, 900.0


class Room:
    """A site whose GPUs show what is said, every ten seconds."""

    def __init__(self, house: House, folder: Path, stop_seconds: float) -> None:
        self.house = house
        self.monitor = Monitor(History(folder / "samples.db", COUNTERS, clock=house.clock.now), house.clock.now)
        self.stopped: list[tuple[str, str]] = []
        self.watch = IdleWatch(
            IdleRules(window_seconds=WINDOW, stop_seconds=stop_seconds),
            store=house.store,
            logs=house.logs,
            monitor=self.monitor,
            live=LiveWorld(house.store),
            clock=house.clock,
            stop=self.stop,
        )
        self.told = 0

    def stop(self, job: str, why: str) -> None:
        self.stopped.append((job, why))
        self.house.commands.cancel(job, owner="site", why=why)

    def passes(self, seconds: float, busy: Callable[[int], float] = lambda _: 0.0) -> None:
        """Time goes on, and every GPU shows so much."""
        nodes = list(self.house.store.world().nodes.values())
        for number in range(int(seconds / 10)):
            self.house.clock.advance(10.0)
            for node in nodes:
                gpus = [
                    Reading(
                        device=Device(index=n, uuid=uuid, product="T4", memory_bytes=16 << 30),
                        values={"utilization_percent": busy(number)},
                    )
                    for n, uuid in enumerate(node.devices)
                ]
                self.monitor.hear([node], Sample(at=self.house.clock.now(), gpus=gpus))

    def tells(self, stream: str, **line: object) -> None:
        (attempt,) = self.house.store.attempts("p/j")
        self.told += 1
        told = {"t": self.house.clock.now(), **line}
        self.house.logs.append(attempt.id, "chief-0", [{"n": self.told, "t": 1.0, "s": stream, "m": json.dumps(told)}])

    def idle(self) -> list[str]:
        self.watch.look()
        return list(self.watch.jobs())


@pytest.fixture
def room(house: House, tmp_path: Path) -> Room:
    return begun(Room(house, tmp_path, STOP))


def begun(room: Room) -> Room:
    """A job on one GPU runs."""
    room.house.submit(gpus=1)
    room.house.tick()
    (attempt,) = room.house.store.attempts("p/j")
    room.house.engine.set(attempt.id, ReplicaState.UP)
    room.house.tick()
    return room


def test_who_does_nothing_for_a_window_is_idle_and_is_stopped_when_its_time_is_over(room: Room) -> None:
    room.passes(WINDOW - 60)
    assert room.idle() == []
    room.passes(120)
    assert room.idle() == ["p/j"] and room.stopped == []
    (idle,) = room.watch.jobs().values()
    assert (idle.gpus, idle.stops_at) == (1, room.house.clock.now() + STOP)
    room.passes(STOP - 60)
    assert room.idle() == ["p/j"] and room.stopped == []
    room.passes(120)
    room.idle()
    ((job, why),) = room.stopped
    assert job == "p/j" and "idle for 46 minutes" in why
    assert room.house.job().wish is Wish.CANCEL and "What it had saved is kept" in room.house.job().wish_why


def test_without_a_rule_nobody_is_stopped(house: House, tmp_path: Path) -> None:
    room = begun(Room(house, tmp_path, 0.0))
    room.passes(WINDOW + 60)
    assert room.idle() == ["p/j"]
    room.passes(4 * STOP)
    assert room.idle() == ["p/j"] and room.stopped == [] and house.job().state is JobState.ACTIVE


def test_one_that_works_now_and_then_is_not_idle_and_one_burst_is_nothing(room: Room) -> None:
    room.passes(WINDOW + 60, lambda number: 90.0 if number % 20 == 0 else 0.0)
    assert room.idle() == []
    room.passes(WINDOW + 60, lambda number: 100.0 if number == 90 else 0.0)
    assert room.idle() == ["p/j"], "ten seconds within half an hour"


def test_it_has_come_back(room: Room) -> None:
    room.passes(WINDOW + 60)
    assert room.idle() == ["p/j"]
    room.passes(STOP / 2, lambda _: 80.0)
    assert room.idle() == []
    room.passes(STOP, lambda _: 80.0)
    room.passes(WINDOW + 60)
    assert room.idle() == ["p/j"] and room.stopped == [], "its time begins anew"


def test_steps_checkpoints_and_busy_processors_are_signs_of_life(room: Room) -> None:
    room.passes(WINDOW)
    room.tells("steps", step=1, steps=1, seconds=1.0, longest=1.0, examples=1)
    room.passes(600)
    assert room.idle() == []
    room.passes(WINDOW)
    room.tells("steps", saved=5, at=room.house.clock.now())
    room.passes(60)
    assert room.idle() == [], "it has saved"
    room.passes(WINDOW + 60)
    use = {"seconds": 60.0, "of_cpus": 8, "memory_bytes": 1, "read_bytes_per_second": 0}
    room.tells("usage", cpus=3.0, **use)
    assert room.idle() == [], "it evaluates on its processors"
    room.passes(WINDOW + 60)
    room.tells("usage", cpus=0.01, **use)
    assert room.idle() == ["p/j"]


def test_its_user_keeps_it(room: Room) -> None:
    room.passes(WINDOW + 60)
    room.idle()
    until = round(room.house.clock.now() + 7200)
    room.house.store.commit([Relabel(job="p/j", labels={KEEP: str(until)})], by="u")
    room.passes(7000)
    assert room.idle() == ["p/j"] and room.stopped == []
    (idle,) = room.watch.jobs().values()
    assert (idle.kept_until, idle.stops_at) == (until, until + STOP)
    room.passes(200 + STOP + 60)
    room.idle()
    assert room.idle() == [], "it is told to stop once"
    assert [job for job, _ in room.stopped] == ["p/j"]


def test_where_nothing_was_sampled_nobody_is_accused(room: Room) -> None:
    room.house.clock.advance(2 * WINDOW)
    assert room.idle() == []
    room.passes(WINDOW / 2)
    assert room.idle() == [], "half a window is known"


def test_a_label_that_is_no_moment_keeps_nothing(room: Room) -> None:
    room.house.store.commit([Relabel(job="p/j", labels={KEEP: "forever"})], by="u")
    room.passes(WINDOW + 60)
    room.idle()
    (idle,) = room.watch.jobs().values()
    assert idle.kept_until == 0.0
