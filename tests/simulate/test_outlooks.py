"""What is told of jobs in a control plane that lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.control.submission import Submission
from stoker.core.job import Request
from stoker.core.site import DEFAULT_QUEUE, Queue, Quota, Site
from stoker.core.states import ReplicaState
from stoker.core.world import World
from stoker.scheduling.rules import rules_of
from stoker.scheduling.settle import force_after_seconds
from stoker.simulate import outlooks as outlooks_module
from stoker.simulate.outlooks import PlayedOutlooks
from stoker.store.base import Line
from stoker.store.memory import MemoryStore
from tests.builders import House, a_house, a_spec
from tests.simulate.futures import AMPLE


def an_outlooks(house: House, site: Site | None = None) -> PlayedOutlooks:
    return PlayedOutlooks(store=house.store, rules=rules_of(site or Site()), clock=house.clock, budget=AMPLE)


def run(house: House, name: str, seconds: float, **spec: int) -> None:
    """A job that runs so long, from submission to its end."""
    house.submit(name, **spec)
    up(house, name)
    house.tick(1, seconds=seconds)
    house.engine.set(f"p/{name}.1", ReplicaState.SUCCEEDED)
    house.tick(2)
    assert house.job(name).ended_at is not None


def up(house: House, name: str) -> None:
    house.tick()
    house.engine.set(f"p/{name}.1", ReplicaState.UP)
    house.tick()


@pytest.fixture
def busy(tmp_path: Path) -> House:
    """One node of four GPUs; jobs run for 600 s here; `first` has for 200 s, `second` and `third` wait."""
    house = a_house(tmp_path)
    for n in range(3):
        run(house, f"past_{n}", 600.0, gpus=4)
    house.submit("first", gpus=4)
    up(house, "first")
    house.submit("second", gpus=4)
    house.submit("third", gpus=4)
    house.tick(1, seconds=200.0)
    return house


def test_who_holds_it_and_when_it_starts(busy: House) -> None:
    now, found = busy.clock.now(), an_outlooks(busy).of("p/third")
    assert found is not None and found.start is not None and found.reason is not None
    assert (found.reason.code, found.ahead) == ("BEHIND", ("p/second",))
    (holder,) = found.holders
    assert (holder.job, holder.accelerators, holder.ends.middle) == ("p/first", 4.0, now + 400.0)
    assert (found.start.at.low, found.start.at.high, found.start.waits_for) == (now + 1000.0, now + 1000.0, "p/second")
    assert found.runs is not None and found.runs.seconds.middle == 600.0 and found.position == busy.store.position()


def test_the_future_comes_true(busy: House) -> None:
    found = an_outlooks(busy).of("p/second")
    assert found is not None and found.start is not None and found.start.at.middle is not None
    busy.tick(1, seconds=found.start.at.middle - busy.clock.now() - 1.0)
    assert busy.job("second").tries == 0
    busy.clock.advance(1.0)
    busy.engine.set("p/first.1", ReplicaState.SUCCEEDED)
    busy.tick()
    assert busy.job("second").tries == 1 and busy.clock.now() == found.start.at.middle


def test_when_a_running_one_ends(busy: House) -> None:
    found = an_outlooks(busy).of("p/first")
    assert found is not None and found.ends is not None and found.start is None and found.holders == ()
    assert (found.ends.low, found.ends.high) == (busy.clock.now() + 400.0, busy.clock.now() + 400.0)


def test_one_that_is_being_stopped_ends_within_its_grace(busy: House) -> None:
    busy.commands.cancel("p/first", owner="u")
    busy.tick()
    busy.clock.advance(2.0)
    now, outlooks = busy.clock.now(), an_outlooks(busy)
    found, waits = outlooks.of("p/first"), outlooks.of("p/second")
    assert found is not None and found.ends is not None and waits is not None
    assert (found.ends.low, found.ends.middle, found.runs) == (now, now, None)
    assert found.ends.high == now - 2.0 + force_after_seconds(busy.job("first"))
    assert [(holder.job, holder.basis) for holder in waits.holders] == [("p/first", "it is being stopped")]


def test_of_what_has_ended_there_is_no_outlook(busy: House) -> None:
    assert an_outlooks(busy).of("p/past_0") is None and an_outlooks(busy).of("p/none") is None


def test_one_that_is_not_submitted(busy: House) -> None:
    job, nodes = busy.commands.would_submit(
        Submission("p", "new", a_spec(gpus=4), request=Request(dialect="test", body="{}"), labels={}, owner="u")
    )
    position = busy.store.position()
    found = an_outlooks(busy).of_new(job, tuple(nodes))
    assert found is not None and found.start is not None
    assert found.start.at.middle == busy.clock.now() + 1600.0 and found.ahead == ("p/second", "p/third")
    assert busy.store.position() == position and an_outlooks(busy).of("p/new") is None


def test_a_rehearsal_that_is_not_submitted_finds_its_own_nodes(busy: House) -> None:
    job, nodes = busy.commands.would_submit(
        Submission(
            "p", "new", a_spec(gpus=8), request=Request(dialect="test", body="{}"), labels={}, owner="u", rehearse=True
        )
    )
    found = an_outlooks(busy).of_new(job, tuple(nodes))
    assert found is not None and found.start is not None and found.start.is_by(found.at)
    assert [place.node for place in found.start.placements] == ["rehearsal-p-new-chief-0"]


def test_the_quota_that_it_waits_for(tmp_path: Path) -> None:
    queue = Queue(name=DEFAULT_QUEUE, quotas={"GPU": Quota(nominal_milli=2000)})
    site = Site(queues={DEFAULT_QUEUE: queue})
    house = a_house(tmp_path, "n0:4", site=site)
    house.submit("first", gpus=2)
    up(house, "first")
    house.submit("second", gpus=1)
    house.tick()
    found = an_outlooks(house, site).of("p/second")
    assert found is not None and found.reason is not None and found.quota is not None
    assert (found.reason.code, [holder.job for holder in found.holders]) == ("QUOTA", ["p/first"])
    quota = found.quota
    assert (quota.queue, quota.resource, quota.held, quota.own, quota.asked) == (DEFAULT_QUEUE, "GPU", 2.0, 2.0, 1.0)


class CountingStore(MemoryStore):
    """Counts how often the whole world is read, and how many lines of the story."""

    worlds = 0
    lines = 0

    def world(self) -> World:
        self.worlds += 1
        return super().world()

    def story(self, job: str = "", after: int = 0, limit: int | None = None) -> Iterator[Line]:
        for line in super().story(job, after, limit):
            self.lines += 1
            yield line


def test_it_follows_the_story_and_learns_from_it(tmp_path: Path) -> None:
    store = CountingStore()
    house = a_house(tmp_path, store=store)
    outlooks = an_outlooks(house)
    assert outlooks.of("p/none") is None
    for n in range(3):
        run(house, f"past_{n}", 300.0, gpus=4)
    store.worlds = 0
    house.submit("next", gpus=4)
    found = outlooks.of("p/next")
    assert found is not None and found.runs is not None and found.runs.seconds.middle == 300.0 and store.worlds == 0


def test_the_same_question_is_played_once(busy: House) -> None:
    outlooks = an_outlooks(busy)
    found = outlooks.of("p/third")
    assert outlooks.of("p/third") is found
    busy.clock.advance(outlooks_module.FRESH_SECONDS)
    assert outlooks.of("p/third") is not found


def test_whoever_finds_it_busy_is_told_nothing(busy: House) -> None:
    outlooks = an_outlooks(busy)
    outlooks.patience_seconds = 0.01
    outlooks._lock.acquire()
    assert outlooks.of("p/third") is None


def test_a_pause_after_a_failure_is_the_reason(tmp_path: Path) -> None:
    house = a_house(tmp_path)
    house.submit("fails", gpus=4)
    up(house, "fails")
    house.engine.set("p/fails.1", ReplicaState.FAILED, exit_code=137)
    house.tick(2)
    house.engine.gone("p/fails.1")
    house.tick(2)
    found = an_outlooks(house).of("p/fails")
    assert found is not None and found.reason is not None and found.start is not None
    assert found.reason.code == "BACKOFF" and found.start.at.middle == house.job("fails").not_before
