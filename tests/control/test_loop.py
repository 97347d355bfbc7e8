"""The loop: idempotent, and at home in whatever a crash left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.control.submission import Submission
from stoker.core.changes import Cancel, Change, NodeSeen, Note, Open, Relabel
from stoker.core.errors import EngineError, Unavailable
from stoker.core.job import Request as JobRequest
from stoker.core.node import Node
from stoker.core.spec import JobSpec
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.engines.base import Request, Seen
from stoker.engines.fake import FakeEngine
from stoker.scheduling.placers.best_fit import BestFit
from stoker.store.base import Store
from stoker.store.memory import MemoryStore
from tests.builders import House, a_house, a_node, a_spec
from tests.conftest import wait_until


def on(house: House, tmp_path: Path, engine: FakeEngine) -> House:
    """The same store and clock with another engine."""
    return a_house(tmp_path, store=house.store, clock=house.clock, engine=engine)


def fresh(house: House, tmp_path: Path) -> House:
    """A new control plane on the same store and engine, as after a restart of the server."""
    return on(house, tmp_path, house.engine)


def test_a_round_without_news_writes_nothing(house: House) -> None:
    house.submit(gpus=1)
    house.tick()
    position = house.store.position()
    assert not house.loop.tick()
    assert house.store.position() == position


def test_the_loops_world_follows_the_store(house: House) -> None:
    house.submit(gpus=4)
    house.submit("k", gpus=4)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    assert house.loop._world == house.store.world()


def test_a_crash_between_placing_and_starting_loses_nothing(house: House, tmp_path: Path) -> None:
    class Dies(FakeEngine):
        def start(self, request: Request) -> None:
            raise KeyboardInterrupt

    house.submit(gpus=4)
    with pytest.raises(KeyboardInterrupt):
        on(house, tmp_path, Dies([a_node("n0", 4)]))
    assert house.store.attempt("p/j.1").state is AttemptState.PLACED
    heir = fresh(house, tmp_path)
    heir.tick()
    assert heir.engine.started == ["p/j.1"]


def test_a_crash_after_starting_starts_nothing_twice(house: House, tmp_path: Path) -> None:
    house.submit(gpus=4)
    house.loop._catch_up()
    house.loop.tick()
    heir = fresh(house, tmp_path)
    heir.tick(3)
    assert heir.engine.started == ["p/j.1"]


def test_the_other_half_of_a_gang_is_started_after_a_crash(house: House, tmp_path: Path) -> None:
    class Halfway(FakeEngine):
        def start(self, request: Request) -> None:
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 1:
                half = {name: words for name, words in request.replicas.items() if name == "chief-0"}
                super().start(Request(attempt=request.attempt, replicas=half))
                gang = self._gangs[request.attempt]
                gang.states["worker-0"] = ReplicaState.NOTHING
                return
            self._gangs[request.attempt].states["worker-0"] = ReplicaState.STARTING

    engine = Halfway([a_node("n0", 4)])
    house = on(house, tmp_path, engine)
    house.submit(workers=1)
    house.tick(3)
    assert [r.seen for r in house.store.attempt("p/j.1").replicas] == [ReplicaState.STARTING] * 2
    assert engine.calls >= 2


def test_an_engine_that_refuses_is_told_to_the_user(house: House, tmp_path: Path) -> None:
    class Refuses(FakeEngine):
        def start(self, request: Request) -> None:
            raise EngineError("the disk of n0 is full")

    house = on(house, tmp_path, Refuses([a_node("n0", 4)]))
    house.submit(gpus=1)
    house.tick(2)
    assert house.job().state is JobState.FAILED
    assert "could not be started. the disk of n0 is full" in house.job().message


def test_the_last_line_is_kept_before_the_end_is(house: House) -> None:
    """What a replica could not ship is taken from the engine (P7)."""
    house.submit()
    house.tick()
    lines = [{"n": n, "t": 1.0, "s": "out", "m": f"line {n}"} for n in (1, 2, 3)]
    house.logs.append("p/j.1", "chief-0", lines[:1])
    house.engine._gangs["p/j.1"].lines["chief-0"] = lines
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.job().state is JobState.SUCCEEDED
    assert [line.text for line in house.logs.read("p/j")] == ["line 1", "line 2", "line 3"]


def test_of_much_that_a_replica_could_not_ship_a_part_is_kept_at_a_time(house: House) -> None:
    """Other jobs wait for the loop, too."""
    house.submit()
    house.tick()
    lines = [{"n": n, "t": 1.0, "s": "out", "m": "x"} for n in range(1, 100_001)]
    house.engine._gangs["p/j.1"].lines["chief-0"] = lines
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.job().state is JobState.ACTIVE
    house.tick(2)
    assert house.job().state is JobState.SUCCEEDED
    assert [line.n for line in house.logs.read("p/j")] == list(range(1, 100_001))


def test_nodes_come_and_go_with_the_engine(house: House) -> None:
    house.engine._nodes.append(a_node("n1", 2))
    house.tick()
    assert set(house.store.world().nodes) == {"n0", "n1"}
    house.engine._nodes.pop(0)
    house.engine._nodes[0] = a_node("n1", 3)
    house.tick()
    world = house.store.world()
    assert set(world.nodes) == {"n1"} and len(world.nodes["n1"].devices) == 3


def test_a_job_whose_nodes_went_says_so_and_starts_when_they_are_back(house: House) -> None:
    house.submit("first", gpus=4)
    house.tick()
    house.submit(gpus=4)
    gone = house.engine._nodes.pop()
    house.tick()
    reason = house.job().waits
    assert reason is not None and reason.code == "NO_SUCH_NODES"
    house.engine._nodes.append(gone)
    house.commands.cancel("p/first", owner="u")
    house.tick()
    house.engine.gone("p/first.1")
    house.tick()
    assert house.job().state is JobState.ACTIVE


def test_an_attempt_of_an_engine_that_is_not_configured_waits_for_it(house: House, tmp_path: Path) -> None:
    house.submit(gpus=1)
    house.tick()
    heir = fresh(house, tmp_path)
    heir.loop.engines = {}
    heir.loop.enact = replace(heir.loop.enact, engines={})
    heir.tick()
    assert heir.job().state is JobState.ACTIVE


def test_a_start_that_fails_half_done_frees_nothing_before_what_has_started_is_gone(tmp_path: Path) -> None:
    class HalfDone(FakeEngine):
        def start(self, request: Request) -> None:
            name, words = next(iter(request.replicas.items()))
            super().start(Request(attempt=request.attempt, replicas={name: words}))
            raise EngineError("no more processes")

        def _seen(self, attempt: str, role: str, index: int) -> Seen:
            if role == "chief":
                return super()._seen(attempt, role, index)
            is_fenced = self._gangs[attempt].stopping
            return Seen(role=role, index=index, state=ReplicaState.LOST if is_fenced else ReplicaState.NOTHING)

    house = a_house(tmp_path, engine=HalfDone([a_node("n0", 4)]))
    house.submit(gpus=1, workers=1)
    house.tick()
    attempt = house.store.attempt("p/j.1")
    assert attempt.state is AttemptState.STOPPING and attempt.cause is Cause.LAUNCH_FAILED
    assert house.engine.stopping() == ["p/j.1"], "its chief has started, and is told to stop"
    house.engine.gone("p/j.1")
    house.tick()
    assert house.job().state is JobState.FAILED and "no more processes" in house.job().message


def test_a_store_that_cannot_write_stops_a_round_and_the_next_goes_on(house: House) -> None:
    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(house.store, name)

        def commit(self, changes: list[Change], *, by: str, term: int | None = None) -> int:
            raise Unavailable("the database cannot be written: disk full")

    house.submit(gpus=1)
    house.loop.store = Full()  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        house.tick()
    house.loop.store = house.store
    house.tick()
    assert house.job().state is JobState.ACTIVE


def test_only_changed_nodes_are_written(house: House) -> None:
    house.tick()
    seen = [line for line in house.store.story() if isinstance(line.change, NodeSeen)]
    assert len(seen) == 1


def test_an_order_that_fails_in_an_unexpected_way_ends_its_own_job_only(house: House, tmp_path: Path) -> None:
    class Breaks(FakeEngine):
        def start(self, request: Request) -> None:
            if request.attempt == "p/bad.1":
                raise RuntimeError("nobody expected this")
            super().start(request)

    house = on(house, tmp_path, Breaks([a_node("n0", 4)]))
    house.submit("bad", gpus=1)
    house.submit("good", gpus=1)
    house.tick(2)
    assert house.job("bad").state is JobState.FAILED and "nobody expected this" in house.job("bad").message
    assert house.job("good").state is JobState.ACTIVE


def test_the_thread_of_the_loop_outlives_whatever_goes_wrong(house: House, tmp_path: Path) -> None:
    class Sick(FakeEngine):
        rounds = 0

        def nodes(self) -> Sequence[Node]:
            self.rounds += 1
            if self.rounds < 3:
                raise OSError("not now")
            return super().nodes()

    engine = Sick([a_node("n0", 4)])
    engine.rounds = 9
    house = on(house, tmp_path, engine)
    house.submit(gpus=1)
    engine.rounds = 0
    house.loop.start()
    try:
        wait_until(lambda: house.job().state is JobState.ACTIVE)
    finally:
        house.loop.stop()


def test_when_the_loop_has_been_started_the_nodes_are_known(house: House, tmp_path: Path) -> None:
    class Watched(FakeEngine):
        def nodes(self) -> Sequence[Node]:
            asked_by.append(threading.current_thread())
            return super().nodes() if asked_by[1:] else ()

    asked_by: list[threading.Thread] = []
    house = on(house, tmp_path, Watched([a_node("n0", 4)]))
    assert not house.store.nodes()
    house.loop.start()
    try:
        house.submit(gpus=1)
    finally:
        house.loop.stop()
    assert asked_by[1] is threading.current_thread(), "before anybody is served"


def test_what_goes_wrong_is_said_once_and_tried_again_not_for_every_ring(
    house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(FakeEngine):
        rounds = 0

        def nodes(self) -> Sequence[Node]:
            self.rounds += 1
            if 1 < self.rounds:
                raise Unavailable("it is away")
            return super().nodes()

    engine = Away([a_node("n0", 4)])
    house = on(house, tmp_path, engine)
    until = time.monotonic() + 0.3
    house.loop.start()
    try:
        wait_until(lambda: house.loop.ring() or time.monotonic() > until)
        assert engine.rounds <= 4, "one at the start of the test, one at the start of the loop, and its first rounds"
    finally:
        house.loop.stop()
    assert len([record for record in caplog.records if "it is away" in record.getMessage()]) == 1


def test_the_placer_learns_from_each_job_once_however_often_the_world_is_read(house: House) -> None:
    class Learner(BestFit):
        def __init__(self) -> None:
            self.learned: list[int] = []

        def learns(self, spec: JobSpec) -> None:
            self.learned.append(spec.priority)

    for priority in (1, 2):
        house.submit(f"j{priority}", gpus=1, priority=priority)
    house.commands.cancel("p/j1", owner="u")
    house.tick()
    assert house.job("j1").ended_at is not None
    placer = Learner()
    rules = replace(house.loop.rules, placer=placer)
    loop = replace(house.loop, rules=rules)
    loop.start()
    loop.stop()
    loop.settle_down()
    assert sorted(placer.learned) == [1, 2], "one that has ended, and one that lives"
    loop._is_half_done = True
    loop.settle_down()
    house.submit("j3", gpus=1, priority=3)
    loop.settle_down()
    assert sorted(placer.learned) == [1, 2, 3]


class Meddled(MemoryStore):
    """A store in which somebody writes something just before the loop's first batch that holds such a change."""

    def __init__(self, clock: ManualClock, kind: type[Change], meddle: Callable[[Store], None]) -> None:
        super().__init__(clock)
        self.kind, self.meddle = kind, meddle
        self.is_done = False

    def commit(self, changes: Sequence[Change], *, by: str, term: int | None = None) -> int:
        if by == "loop" and not self.is_done and any(isinstance(change, self.kind) for change in changes):
            self.is_done = True
            self.meddle(self)
        return super().commit(changes, by=by)


def meddled(folder: Path, kind: type[Change], meddle: Callable[[Store], None]) -> House:
    clock = ManualClock()
    return a_house(folder, store=Meddled(clock, kind, meddle), clock=clock)


def test_labels_that_change_while_it_is_placed_keep_nothing_from_it(tmp_path: Path) -> None:
    def relabel(store: Store) -> None:
        store.commit([Relabel(job="p/j", labels={"a": "b"}, if_revision=store.job("p/j").job.revision)], by="u")

    house = meddled(tmp_path, Open, relabel)
    house.submit(gpus=1)
    house.loop.tick()
    assert house.engine.started == ["p/j.1"]
    assert (house.job().state, house.job().labels) == (JobState.ACTIVE, {"a": "b"})
    assert house.loop._world == house.store.world()


def test_a_cancel_that_comes_in_the_middle_of_a_round_counts_whoever_sent_it(tmp_path: Path) -> None:
    def cancel(store: Store) -> None:
        store.commit([Cancel(job="p/j", why="", at=1.0)], by="loop")

    house = meddled(tmp_path, Open, cancel)
    request = JobRequest(dialect="test", body="{}")
    house.commands.submit(Submission("p", "j", a_spec(gpus=1), request=request, labels={}, owner="loop"))
    house.tick()
    assert house.job().state is JobState.CANCELLED and not house.store.attempts("p/j")
    assert house.engine.started == [], "what is cancelled just before it was to get its place gets none"
    assert house.loop._world == house.store.world()


def test_whoever_tells_of_an_end_first_is_believed(tmp_path: Path) -> None:
    """The engine finds the replica gone; at that moment its own report arrives that it has succeeded."""

    def succeed(store: Store) -> None:
        end = Note(attempt="p/j.1", role="chief", index=0, seen=ReplicaState.SUCCEEDED, at=2.0, exit_code=0)
        if store.attempt("p/j.1").state is AttemptState.RUNNING:
            store.commit([end], by="replica chief-0")

    house = meddled(tmp_path, Note, lambda store: None)
    house.submit(gpus=1)
    house.tick()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    store = house.store
    assert isinstance(store, Meddled)
    store.meddle, store.is_done = succeed, False
    house.engine.set("p/j.1", ReplicaState.LOST)
    house.tick()
    assert house.job().state is JobState.SUCCEEDED
    assert house.loop._world == house.store.world()


def test_what_a_start_takes_is_learned(house: House) -> None:
    for name in ("a", "b", "c"):
        house.submit(name, gpus=1)
        house.loop.tick()
        house.clock.advance(12.0)
        house.engine.set(f"p/{name}.1", ReplicaState.UP)
        house.tick()
    assert house.loop._scheduler.state.history.overhead_seconds(30.0) == 12.0


def test_a_job_of_a_round_that_failed_is_learned_from(house: House, tmp_path: Path) -> None:
    class Learner(BestFit):
        def __init__(self) -> None:
            self.learned: list[int] = []

        def learns(self, spec: JobSpec) -> None:
            self.learned.append(spec.priority)

    class Mute(FakeEngine):
        is_mute = False

        def nodes(self) -> Sequence[Node]:
            if self.is_mute:
                raise EngineError("it does not answer")
            return super().nodes()

    placer, engine = Learner(), Mute([a_node("n0", 4)])
    house = on(house, tmp_path, engine)
    loop = replace(house.loop, rules=replace(house.loop.rules, placer=placer))
    house.submit("j1", gpus=1, priority=1)
    loop.settle_down()
    house.submit("j2", gpus=1, priority=2)
    engine.is_mute = True
    with pytest.raises(EngineError):
        loop.tick()
    engine.is_mute = False
    loop.settle_down()
    assert sorted(placer.learned) == [1, 2]


def test_a_machine_that_has_no_room_now_fails_no_job(house: House, tmp_path: Path) -> None:
    class Full(FakeEngine):
        is_full = True

        def start(self, request: Request) -> None:
            if self.is_full:
                raise Unavailable("no room left on its disk")
            super().start(request)

    engine = Full([a_node("n0", 4)])
    house = on(house, tmp_path, engine)
    house.submit(gpus=1)
    house.tick()
    assert (house.job().state, house.job().tries, engine.started) == (JobState.ACTIVE, 1, [])
    engine.is_full = False
    house.tick()
    assert (house.job().state, house.job().tries, engine.started) == (JobState.ACTIVE, 1, ["p/j.1"])
