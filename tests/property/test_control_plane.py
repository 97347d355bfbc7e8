"""Whatever users and admins do and engines suffer, the invariants hold after each step, and when faults cease every job ends.

The promises P2 to P5 and P9 of the design; the memory store and the database must agree all the way.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stoker.clock import ManualClock
from stoker.core.errors import Conflict, NotReady
from stoker.core.ids import replica_name
from stoker.core.states import FINAL_JOB_STATES, FINAL_REPLICA_STATES, AttemptState, JobState, ReplicaState, Standing
from stoker.core.world import World, apply
from stoker.store.sql import SqlStore
from tests.builders import a_house, a_node

SIGNATURES = st.sampled_from(["", "", "MISSING_MODULE", "GPU_ECC", "NO_SPACE", "PEER_GONE", "FROM_THE_FUTURE"])
EXIT_CODES = st.sampled_from([1, 3, 6, 11, 134, 137, 139, 143, 255])


class ControlPlane(RuleBasedStateMachine):
    """Submit, cancel, run, fail, lose, cordon, drain, cut off, stop slowly, crash and restart."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.count = 0

    @initialize(text=st.sampled_from(["n0:4", "n0:2 n1:2", "n0:4 n1:4 n2:0"]))
    def begin(self, text: str) -> None:
        path = Path(self.folder.name)
        self.clock = ManualClock()
        self.path = path
        self.store = SqlStore(path / "s.db", self.clock)
        self.house = a_house(path, text, store=self.store, clock=self.clock, lease_seconds=60.0)
        self.follower = World()
        self.ended: dict[str, JobState] = {}

    @rule(gpus=st.integers(0, 5), workers=st.integers(0, 3), ps=st.integers(0, 2), priority=st.integers(0, 2))
    def submit(self, gpus: int, workers: int, ps: int, priority: int) -> None:
        self.count += 1
        try:
            self.house.submit(f"j{self.count}", gpus=gpus, workers=workers, ps=ps, priority=priority)
        except NotReady:
            pass

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        live = sorted(self.store.world().jobs)
        if live:
            self.house.commands.cancel(data.draw(st.sampled_from(live)), owner="u")

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0, 30.0, 100.0]))
    def tick(self, seconds: float) -> None:
        self.house.clock.advance(seconds)
        self.house.loop.tick()

    @rule(data=st.data(), state=st.sampled_from([ReplicaState.UP, ReplicaState.SUCCEEDED, ReplicaState.LOST]))
    def replicas_go_on(self, data: st.DataObject, state: ReplicaState) -> None:
        self._set(data, state)

    @rule(data=st.data(), code=EXIT_CODES, sign=SIGNATURES)
    def replica_fails(self, data: st.DataObject, code: int, sign: str) -> None:
        self._set(data, ReplicaState.FAILED, code, sign=sign)

    @rule(data=st.data(), standing=st.sampled_from(Standing), sign=SIGNATURES)
    def replica_stands_still(self, data: st.DataObject, standing: Standing, sign: str) -> None:
        self._set(data, ReplicaState.UP, 1 if standing is Standing.HELD else None, sign=sign, standing=standing)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        live = sorted(self.store.world().jobs)
        if live:
            with suppress(Conflict):
                self.house.commands.release(data.draw(st.sampled_from(live)), owner="u")

    @rule()
    def what_was_stopped_is_gone(self) -> None:
        for attempt in self.house.engine.stopping():
            self.house.engine.gone(attempt)

    @rule()
    def the_server_restarts(self) -> None:
        self.store.close()
        self.store = SqlStore(self.path / "s.db", self.clock)
        self.house = a_house(self.path, store=self.store, clock=self.clock, engine=self.house.engine)

    @precondition(lambda self: len(self.house.engine._nodes) < 4)
    @rule()
    def a_node_joins(self) -> None:
        self.house.engine._nodes.append(a_node(f"x{len(self.house.engine._nodes)}", 2, lease_seconds=60.0))

    @rule(data=st.data(), empty_in=st.sampled_from([None, 0.0, 50.0, 1000.0]))
    def a_node_is_cordoned(self, data: st.DataObject, empty_in: float | None) -> None:
        self.house.commands.cordon(self._a_node(data), owner="u", empty_in_seconds=empty_in)

    @rule(data=st.data())
    def a_node_is_uncordoned(self, data: st.DataObject) -> None:
        self.house.commands.uncordon(self._a_node(data), owner="u")

    @rule(data=st.data())
    def a_node_is_cut_off(self, data: st.DataObject) -> None:
        self.house.engine.cut_off(self._a_node(data))

    @rule(data=st.data())
    def a_node_is_reached_again(self, data: st.DataObject) -> None:
        self.house.engine.comes_back(self._a_node(data))

    @rule(data=st.data())
    def a_replica_is_heard_of(self, data: st.DataObject) -> None:
        live = self.store.world().attempts
        if live:
            attempt = live[data.draw(st.sampled_from(sorted(live)))]
            for replica in attempt.replicas:
                name = replica_name(replica.role, replica.index)
                if name in self.house.engine.running(attempt.id):
                    self.house.loop.leases.hear(attempt, replica, self.clock.now())

    @invariant()
    def no_device_is_held_twice(self) -> None:
        held: set[tuple[str, str]] = set()
        for attempt in self.store.world().attempts.values():
            for place in attempt.placements:
                mine = {(place.node, device) for device in place.devices}
                assert not held & mine
                held |= mine

    @invariant()
    def active_means_one_live_attempt(self) -> None:
        world = self.store.world()
        assert {a.job for a in world.attempts.values()} == {
            job.id for job in world.jobs.values() if job.state is JobState.ACTIVE
        }
        assert len(world.attempt_of) == len(world.attempts)

    @invariant()
    def gangs_are_whole(self) -> None:
        world = self.store.world()
        for attempt in world.attempts.values():
            spec = world.jobs[attempt.job].spec
            assert len(attempt.placements) == len(attempt.replicas) == spec.replicas
            for group in spec.groups:
                places = [p for p in attempt.placements if p.role == group.role]
                assert [len(p.devices) for p in places] == [group.machine.accelerators] * group.count

    @invariant()
    def the_story_leads_to_what_is_written(self) -> None:
        for line in self.store.story(after=self.follower.position):
            apply(self.follower, line.change)
            self.follower.position = line.n
        assert self.follower == self.store.world()

    @invariant()
    def what_has_ended_stays_ended(self) -> None:
        for n in range(1, self.count + 1):
            try:
                job = self.store.job(f"p/j{n}").job
            except Exception:
                continue
            if job.id in self.ended:
                assert job.state is self.ended[job.id]
            elif job.state in FINAL_JOB_STATES:
                self.ended[job.id] = job.state

    @invariant()
    def the_engine_agrees_on_what_is_busy(self) -> None:
        """A device that the engine still has in use is not free in the usage."""
        world = self.store.world()
        for attempt, gang in self.house.engine._gangs.items():
            if gang.devices and set(gang.states.values()) - FINAL_REPLICA_STATES:
                assert attempt in world.attempts, f"{attempt} uses devices, but is over in the books"

    @invariant()
    def no_job_runs_twice(self) -> None:
        """Not even as a zombie on a node that nobody reaches."""
        running = [
            attempt.rpartition(".")[0] for attempt in self.house.engine._gangs if self.house.engine.running(attempt)
        ]
        assert len(running) == len(set(running))

    def teardown(self) -> None:
        """With faults off, every job ends, and whatever waits meanwhile says why."""
        if not hasattr(self, "house"):
            return
        try:
            self._let_everything_end()
        finally:
            self.store.close()
            self.folder.cleanup()

    def _let_everything_end(self) -> None:
        for node in list(self.house.engine._nodes):
            self.house.engine.comes_back(node.name)
        for name in list(self.store.world().records):
            self.house.commands.uncordon(name, owner="u")
        for _ in range(200):
            self.house.clock.advance(70)
            self.house.tick()
            world = self.store.world()
            if not world.jobs:
                break
            assert all(job.waits for job in world.jobs.values() if job.state is JobState.QUEUED)
            for attempt in world.attempts.values():
                if attempt.state is AttemptState.STARTING:
                    self.house.engine.set(attempt.id, ReplicaState.UP)
                elif attempt.state is AttemptState.RUNNING:
                    self.house.engine.set(attempt.id, ReplicaState.SUCCEEDED, "chief-0")
                elif attempt.state is AttemptState.STOPPING:
                    self.house.engine.gone(attempt.id)
        assert not self.store.world().jobs

    def _a_node(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.store.world().nodes)))

    def _set(self, data: st.DataObject, state: ReplicaState, code: int | None = None, **more: Any) -> None:
        running = [a for a, g in self.house.engine._gangs.items() if g.states and not g.stopping]
        if running:
            attempt = data.draw(st.sampled_from(running))
            names = sorted(self.house.engine._gangs[attempt].states)
            chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            self.house.engine.set(attempt, state, *chosen, exit_code=code, **more)


TestControlPlane = ControlPlane.TestCase
TestControlPlane.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
