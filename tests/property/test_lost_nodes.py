"""Nodes are cut off and come back at any moment, the server restarts: no job ever runs twice, and in the end every one ends.

More narrow than the control plane's test, so that it comes to where leases run out: random walks, each from a seed.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stoker.core.ids import replica_name
from stoker.core.states import AttemptState, JobState, ReplicaState
from tests.builders import House, a_house

NODES = ("n0", "n1", "n2")
STEPS = 150


class Walk:
    """One story."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.house: House = a_house(folder, " ".join(f"{name}:2" for name in NODES), lease_seconds=60.0)
        self.losses = 0

    def step(self) -> None:
        """Something happens, then time goes by."""
        dice = self.random.random()
        node, engine = self.random.choice(NODES), self.house.engine
        if dice < 0.15:
            engine.cut_off(node)
        elif dice < 0.27:
            engine.comes_back(node)
        elif dice < 0.32:
            self.house = a_house(
                self.folder, store=self.house.store, clock=self.house.clock, engine=engine
            )  # a restart of the server
        elif dice < 0.37:
            self.house.commands.cordon(node, owner="u", empty_in_seconds=self.random.choice([None, 0.0, 90.0]))
        elif dice < 0.45:
            self.house.commands.uncordon(node, owner="u")
        elif dice < 0.60 and len(self.house.store.world().jobs) < 4:
            name = f"j{len(self.house.store.jobs('p', limit=1000))}"
            self.house.submit(name, gpus=self.random.choice([1, 2]), workers=self.random.choice([0, 0, 1]))
        self.replicas_go_on()
        self.house.tick(seconds=self.random.choice([0.0, 5.0, 15.0, 30.0]))
        self.check()

    def replicas_go_on(self) -> None:
        """Those that are reached come up, beat, and end when they are told to."""
        engine, now = self.house.engine, self.house.clock.now()
        for attempt in self.house.store.world().attempts.values():
            if attempt.state is AttemptState.STOPPING and attempt.id in engine.stopping():
                engine.gone(attempt.id)
            for place, replica in zip(attempt.placements, attempt.replicas, strict=True):
                name = replica_name(replica.role, replica.index)
                if place.node not in engine._cut_off and name in engine.running(attempt.id):
                    self.house.loop.leases.hear(attempt, replica, now)
                    if engine._gangs[attempt.id].states[name] is ReplicaState.STARTING:
                        engine.set(attempt.id, ReplicaState.UP, name)

    def check(self) -> None:
        """No job runs twice, not even unseen; and nobody was given what somebody else holds."""
        engine = self.house.engine
        running = [attempt.rpartition(".")[0] for attempt in engine._gangs if engine.running(attempt)]
        assert len(running) == len(set(running))
        for listed in self.house.store.jobs("p", limit=1000):
            assert listed.job.state is not JobState.FAILED, listed.job.message
            self.losses += "answers no more" in listed.job.message

    def end(self) -> None:
        """The faults are over: all that was accepted ends."""
        for name in NODES:
            self.house.engine.comes_back(name)
            self.house.commands.uncordon(name, owner="u")
        for _ in range(100):
            self.replicas_go_on()
            self.house.tick(seconds=30.0)
            for attempt in self.house.store.world().attempts.values():
                if attempt.state is AttemptState.RUNNING:
                    self.house.engine.set(attempt.id, ReplicaState.SUCCEEDED)
        self.check()
        assert not self.house.store.world().jobs


@pytest.mark.parametrize("seed", range(20))
def test_no_job_runs_twice(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    for _ in range(STEPS):
        walk.step()
    walk.end()
    assert walk.losses, "a walk on which no node was ever lost proves nothing"
