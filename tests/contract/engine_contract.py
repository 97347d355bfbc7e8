"""What every engine must do. A subclass says how to make one, and how its program is told to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.convention import Convention
from stoker.core.job import Attempt, Placement, Replica
from stoker.core.launch import Launch, LaunchReplica
from stoker.core.node import NodeState
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Engine, Seen
from stoker.runtime.exits import LEASE_OVER
from tests.conftest import wait_until

ATTEMPT = "p/j.1"


def an_attempt(node: str = "local") -> Attempt:
    return Attempt(
        id=ATTEMPT,
        job="p/j",
        number=1,
        engine="e",
        placements=(Placement(role="chief", index=0, node=node),),
        placed_at=0.0,
        replicas=(Replica(role="chief", index=0),),
    )


def a_launch(
    *command: str,
    in_place: int = 0,
    env: dict[str, str] | None = None,
    grace_seconds: float = 5.0,
    lease_seconds: float = 0.0,
    node: str = "local",
) -> Launch:
    return Launch(
        attempt=ATTEMPT,
        number=1,
        convention=Convention.AI_PLATFORM,
        primary_name="chief",
        told="{}",
        packages=(),
        source=(),
        grace_seconds=grace_seconds,
        in_place=in_place,
        lease_seconds=lease_seconds,
        replicas=(
            LaunchReplica(
                role="chief",
                index=0,
                node=node,
                devices=(),
                python="python3",
                command=command or ("true",),
                env=env or {},
            ),
        ),
    )


def look(engine: Engine) -> Seen:
    """What is seen of the only replica, which is on the engine's first node. An engine may have to ask around first."""
    attempt = an_attempt(engine.nodes()[0].name)
    return wait_until(lambda: engine.poll({ATTEMPT: attempt}).get(ATTEMPT))[0]


def until(engine: Engine, *states: ReplicaState) -> Seen:
    """Look until it is in one of these states."""
    return wait_until(lambda: seen if (seen := look(engine)).state in states else None)


class EngineContract:
    """Subclass it and give these three."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        """The engine."""
        raise NotImplementedError

    def endless(self) -> Launch:
        """A program that runs until it is told to end."""
        raise NotImplementedError

    def end(self, engine: Engine) -> None:
        """Tell it to end well."""
        raise NotImplementedError

    def gone(self, engine: Engine) -> None:
        """Let what was told to stop be gone, where that does not come by itself."""

    def test_nothing_is_seen_before_the_start(self, engine: Engine) -> None:
        assert look(engine).state is ReplicaState.NOTHING

    def test_render_is_pure_and_says_the_same_twice(self, engine: Engine) -> None:
        assert engine.render(self.endless()) == engine.render(self.endless())
        assert look(engine).state is ReplicaState.NOTHING

    def test_started_it_runs_and_its_end_is_seen(self, engine: Engine) -> None:
        engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        self.end(engine)
        seen = until(engine, *FINAL_REPLICA_STATES)
        assert (seen.state, seen.exit_code) == (ReplicaState.SUCCEEDED, 0)

    def test_started_again_it_is_not_started_again(self, engine: Engine) -> None:
        for _ in range(3):
            engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        engine.start(engine.render(self.endless()))
        self.end(engine)
        assert until(engine, *FINAL_REPLICA_STATES).state is ReplicaState.SUCCEEDED
        engine.start(engine.render(self.endless()))
        assert look(engine).state is ReplicaState.SUCCEEDED, "what has ended is not run again"

    def answers(self, engine: Engine) -> list[str]:
        """What the replica has answered to what it was asked, in lines of JSON."""
        lines = engine.logs(ATTEMPT, "chief-0", 0)
        return [str(line["m"]) for line in lines if line["s"] == "profile"]

    def test_what_a_user_asks_reaches_what_runs(self, engine: Engine) -> None:
        engine.ask(ATTEMPT, {"id": "nobody", "seconds": 0.0})
        engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        engine.ask(ATTEMPT, {"id": "now", "seconds": 0.0})
        told = wait_until(lambda: found if (found := self.answers(engine)) and "is_over" in found[-1] else None)
        assert all('"id": "now"' in line for line in told)
        self.end(engine)
        until(engine, *FINAL_REPLICA_STATES)

    def test_stop_ends_it(self, engine: Engine) -> None:
        engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        engine.stop(ATTEMPT, force=False)
        engine.stop(ATTEMPT, force=False)
        self.gone(engine)
        assert until(engine, *FINAL_REPLICA_STATES).state is not ReplicaState.SUCCEEDED

    def test_force_ends_it_at_once(self, engine: Engine) -> None:
        engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        engine.stop(ATTEMPT, force=True)
        until(engine, *FINAL_REPLICA_STATES)

    def test_stop_is_a_fence(self, engine: Engine) -> None:
        engine.stop(ATTEMPT, force=False)
        engine.start(engine.render(self.endless()))
        assert look(engine).state is ReplicaState.LOST
        assert list(engine.logs(ATTEMPT, "chief-0", 0)) == []

    def test_an_attempt_that_never_was_can_be_forgotten(self, engine: Engine) -> None:
        engine.forget("p/never.1")


class LosesNodesContract:
    """What an engine must do, too, that can lose a node. Its `endless` launch has a lease, and its first node is the one lost."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        """The engine."""
        raise NotImplementedError

    def endless(self) -> Launch:
        """A program that runs until it is told to end."""
        raise NotImplementedError

    def cut_off(self, engine: Engine) -> None:
        """Let nobody reach the node any more, and it nobody; until the engine has noticed."""
        raise NotImplementedError

    def bring_back(self, engine: Engine) -> None:
        """Let it be reached again."""
        raise NotImplementedError

    def let_the_lease_end(self, engine: Engine) -> None:
        """Wait until every lease on the node is over."""
        raise NotImplementedError

    def runs(self, engine: Engine) -> bool:
        """Whether the program runs, by a look at the node itself: the engine is not asked."""
        raise NotImplementedError

    def test_its_nodes_have_a_lease(self, engine: Engine) -> None:
        assert all(node.lease_seconds > 0 for node in engine.nodes())

    def test_of_a_node_that_does_not_answer_it_claims_nothing(self, engine: Engine) -> None:
        name = self.start_and_cut_off(engine)
        assert name not in up(engine)
        for force in (False, True):
            assert not engine.poll({ATTEMPT: an_attempt(name)}).get(ATTEMPT), "neither that it runs nor that it is gone"
            engine.stop(ATTEMPT, force=force)

    def test_who_is_cut_off_for_the_length_of_its_lease_has_ended_itself(self, engine: Engine) -> None:
        self.start_and_cut_off(engine)
        self.let_the_lease_end(engine)
        assert not self.runs(engine)
        self.bring_back(engine)
        assert not self.runs(engine)

    def start_and_cut_off(self, engine: Engine) -> str:
        """Start a program, and lose its node. Returns the node's name."""
        name = engine.nodes()[0].name
        engine.start(engine.render(self.endless()))
        until(engine, ReplicaState.STARTING, ReplicaState.UP)
        wait_until(lambda: self.runs(engine))
        self.cut_off(engine)
        return name


class RegainsNodesContract(LosesNodesContract):
    """What one must do, besides, whose node is the same as before when it is back."""

    def test_a_node_that_is_back_is_seen_again_with_what_runs_there(self, engine: Engine) -> None:
        name = self.start_and_cut_off(engine)
        self.bring_back(engine)
        assert up(engine) == [name]
        assert until(engine, ReplicaState.STARTING, ReplicaState.UP)

    def test_who_has_ended_itself_is_seen_as_such_when_its_node_is_back(self, engine: Engine) -> None:
        self.start_and_cut_off(engine)
        self.let_the_lease_end(engine)
        self.bring_back(engine)
        seen = until(engine, *FINAL_REPLICA_STATES)
        assert (seen.state, seen.sign) == (ReplicaState.LOST, LEASE_OVER)


def up(engine: Engine) -> list[str]:
    """The nodes for which an engine vouches."""
    return [node.name for node in engine.nodes() if node.state is NodeState.UP]
