"""Nodes that are cordoned, drained, about to leave, lost, or to blame: stories on the fake engine, and the rule of lemons."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.changes import NodeFailed
from stoker.core.job import Attempt
from stoker.core.node import Cordon, Fault, Node, NodeRecord, NodeState
from stoker.core.spec import Limits, Retry
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.core.world import World
from stoker.runtime.exits import LEASE_OVER
from stoker.scheduling.nodes import AUTOMATIC, lemons
from tests.builders import House, a_house, a_node

UP, SUCCEEDED, FAILED, LOST = ReplicaState.UP, ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST
LEASE = 60.0
WAIT = 80.0


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Two nodes that can be lost."""
    return a_house(tmp_path, "n0:4 n1:4", lease_seconds=LEASE)


def running(house: House, name: str = "j", **spec: object) -> Attempt:
    """A job that runs. Returns its attempt."""
    house.submit(name, **spec)
    house.tick()
    attempt = attempt_of(house, name)
    house.engine.set(attempt.id, UP)
    house.tick()
    return attempt


def attempt_of(house: House, name: str = "j", number: int = 1) -> Attempt:
    return house.store.attempt(f"p/{name}.{number}")


def where(attempt: Attempt) -> set[str]:
    return {place.node for place in attempt.placements}


def cordon(house: House, *names: str, in_seconds: float | None = None) -> None:
    for name in names:
        house.commands.cordon(name, owner="ada", why="new driver", empty_in_seconds=in_seconds)


# Cordon and drain


def test_a_cordoned_node_gets_nothing_new_and_what_runs_there_runs_on(house: House) -> None:
    running(house, gpus=1)
    cordon(house, "n0", "n1")
    house.submit("k", gpus=1)
    house.tick(3, seconds=1000.0)
    assert attempt_of(house).state is AttemptState.RUNNING
    waits = house.job("k").waits
    assert waits is not None and waits.code == "OUT_OF_SERVICE"
    assert "n0 (cordoned: new driver), n1 (cordoned: new driver)" in waits.text and "uncordon" in waits.action
    house.commands.uncordon("n1", owner="ada")
    house.tick()
    assert where(attempt_of(house, "k")) == {"n1"}


def test_who_waits_for_room_is_told_of_nodes_that_take_no_work(house: House) -> None:
    running(house, gpus=4)
    cordon(house, "n1")
    house.submit("k", gpus=4)
    house.tick()
    waits = house.job("k").waits
    assert waits is not None and waits.code == "NO_ROOM"
    assert (
        waits.text == "needs 1 × 4 T4, and not enough is free now; 1 node(s) of that kind take no work (stoker nodes)"
    )


def test_a_cordon_survives_the_server_and_the_node(house: House, tmp_path: Path) -> None:
    cordon(house, "n0", "n1")
    absent = house.engine._nodes.pop(0)
    house.tick()
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine)
    heir.engine._nodes.append(absent)
    heir.submit(gpus=1)
    heir.tick()
    assert heir.job().state is JobState.QUEUED


def test_a_job_that_fits_on_a_cordoned_node_only_is_accepted(house: House) -> None:
    cordon(house, "n0", "n1")
    house.submit(gpus=4)
    house.tick()
    assert house.job().state is JobState.QUEUED


def test_who_is_drained_stops_at_once_and_goes_elsewhere_for_free(house: House) -> None:
    before = running(house, gpus=1)
    (node,) = where(before)
    cordon(house, node, in_seconds=0.0)
    house.tick()
    found = attempt_of(house)
    assert (found.state, found.cause) == (AttemptState.STOPPING, Cause.DRAINED)
    assert found.detail == f"It left the node {node}: new driver."
    house.engine.gone(found.id)
    house.tick()
    job = house.job()
    assert (job.state, job.failures, job.preemptions, job.avoid) == (JobState.ACTIVE, 0, 0, ())
    assert where(attempt_of(house, number=2)) == {"n0", "n1"} - {node}


def test_a_drain_leaves_time_and_keeps_enough_of_it_for_a_checkpoint(house: House) -> None:
    before = running(house, gpus=1, limits=Limits(grace_seconds=100.0))
    cordon(house, *where(before), in_seconds=600.0)
    house.tick()
    assert house.loop.next_deadline() == house.clock.now() + 600.0 - 110.0
    house.tick(seconds=489.0)
    assert attempt_of(house).state is AttemptState.RUNNING
    house.tick(seconds=1.0)
    assert attempt_of(house).cause is Cause.DRAINED


def test_what_ends_before_the_drain_has_just_ended(house: House) -> None:
    before = running(house, gpus=1)
    cordon(house, *where(before), in_seconds=600.0)
    house.engine.set("p/j.1", SUCCEEDED)
    house.tick()
    assert house.job().state is JobState.SUCCEEDED


def test_a_drain_that_is_taken_back_stops_nobody(house: House) -> None:
    before = running(house, gpus=1)
    cordon(house, *where(before), in_seconds=600.0)
    house.tick()
    house.commands.uncordon(*where(before), owner="ada")
    house.tick(seconds=1000.0)
    assert attempt_of(house).state is AttemptState.RUNNING


def test_a_node_that_is_about_to_leave_is_emptied_in_time(house: House) -> None:
    before = running(house, gpus=1)
    (node,) = where(before)
    index = [n.name for n in house.engine._nodes].index(node)
    house.engine._nodes[index] = replace(house.engine._nodes[index], leaving_at=house.clock.now() + 300.0)
    house.tick(seconds=1.0)
    house.submit("k", gpus=4)
    house.tick()
    assert where(attempt_of(house, "k")) == {"n0", "n1"} - {node}, "it takes nothing new"
    grace = Limits().grace_seconds
    house.tick(seconds=300.0 - grace - 12.0)
    assert attempt_of(house).state is AttemptState.RUNNING
    house.tick(seconds=1.0)
    found = attempt_of(house)
    assert (found.cause, found.detail) == (
        Cause.DRAINED,
        f"It left the node {node}: its machine is about to go away.",
    )


# Loss


def test_a_lost_node_is_waited_for_until_its_replicas_have_ended_for_certain(house: House) -> None:
    before = running(house, gpus=4)
    (node,) = where(before)
    house.engine.cut_off(node)
    house.tick()
    house.tick(seconds=WAIT - 0.1)
    assert (house.job().state, attempt_of(house).state) == (JobState.ACTIVE, AttemptState.RUNNING)
    house.tick(seconds=0.1)
    assert attempt_of(house).cause is Cause.NODE_LOST
    job = house.job()
    assert (job.state, job.failures, job.avoid) == (JobState.ACTIVE, 0, (node,))
    assert where(attempt_of(house, number=2)) == {"n0", "n1"} - {node}
    assert house.engine.running("p/j.1") == [], "no zombie holds anything any more"


def test_a_node_that_is_back_in_time_has_lost_nothing(house: House) -> None:
    before = running(house, gpus=4)
    for _ in range(3):
        house.engine.cut_off(*where(before))
        house.tick()
        house.tick(seconds=LEASE - 1.0)
        house.engine.comes_back(*where(before))
        house.tick()
    assert attempt_of(house).state is AttemptState.RUNNING


def test_a_replica_that_is_heard_of_lives_whatever_its_engine_says(house: House) -> None:
    before = running(house, gpus=4)
    house.engine.cut_off(*where(before))
    house.tick()
    for _ in range(10):
        house.loop.leases.hear(before, before.replicas[0], house.clock.now())
        house.tick(seconds=WAIT - 1.0)
    assert attempt_of(house).state is AttemptState.RUNNING
    house.tick(seconds=1.0)
    assert attempt_of(house).cause is Cause.NODE_LOST


def test_after_a_restart_everybody_counts_as_heard_of(house: House, tmp_path: Path) -> None:
    before = running(house, gpus=4)
    house.engine.cut_off(*where(before))
    house.tick()
    house.tick(seconds=WAIT - 1.0)
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine)
    heir.tick(seconds=WAIT - 1.0)
    assert attempt_of(heir).state is AttemptState.RUNNING
    heir.tick(seconds=1.0)
    assert attempt_of(heir).cause is Cause.NODE_LOST


def test_a_node_that_is_gone_altogether_is_waited_for_as_well(house: House, tmp_path: Path) -> None:
    before = running(house, gpus=4)
    (node,) = where(before)
    house.engine.cut_off(node)
    house.engine._nodes = [n for n in house.engine._nodes if n.name != node]
    house.tick()
    assert node not in house.store.world().nodes
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine)
    heir.tick(seconds=WAIT - 1.0)
    assert attempt_of(heir).state is AttemptState.RUNNING
    heir.tick(seconds=1.0)
    assert attempt_of(heir).cause is Cause.NODE_LOST


def test_an_engine_that_knows_for_certain_is_believed_at_once(house: House) -> None:
    before = running(house, gpus=4)
    (node,) = where(before)
    house.engine._nodes = [replace(n, state=NodeState.DOWN) if n.name == node else n for n in house.engine._nodes]
    house.engine.set("p/j.1", LOST)
    house.tick()
    assert attempt_of(house).cause is Cause.NODE_LOST
    assert attempt_of(house, number=2)


def test_a_node_without_leases_that_its_engine_shows_no_more_ends_nothing(tmp_path: Path) -> None:
    """It is the machine of the server itself, declared otherwise now: its replicas are where they were."""
    house = a_house(tmp_path, "n0:4")
    running(house, gpus=4)
    house.engine._nodes = [a_node("other", 4)]
    house.tick(3, seconds=10_000.0)
    assert attempt_of(house).state is AttemptState.RUNNING


def test_a_peer_that_fails_because_its_node_is_lost_costs_no_retry(house: House) -> None:
    gang = running(house, gpus=4, workers=1, retry=Retry(whole_job=0))
    assert where(gang) == {"n0", "n1"}
    chief = next(place.node for place in gang.placements if place.role == "chief")
    other = next(place.node for place in gang.placements if place.role == "worker")
    house.engine.cut_off(other)
    house.engine.set("p/j.1", FAILED, "chief-0", exit_code=1)
    house.tick()
    assert (attempt_of(house).state, attempt_of(house).cause) == (AttemptState.STOPPING, Cause.NODE_LOST)
    house.tick(seconds=WAIT)
    assert attempt_of(house).state is AttemptState.ENDED
    assert (house.job().state, house.job().failures, house.job().avoid) == (JobState.QUEUED, 0, (other,))
    assert chief not in house.store.world().records


def test_a_peer_that_fails_before_the_loss_is_seen_is_excused_afterwards(house: House) -> None:
    """Sockets break within seconds; an engine takes longer to say that a node is gone."""
    gang = running(house, gpus=4, workers=1, retry=Retry(whole_job=0))
    other = next(place.node for place in gang.placements if place.role == "worker")
    house.engine.set("p/j.1", FAILED, "chief-0", exit_code=1)
    house.tick()
    assert attempt_of(house).cause is Cause.REPLICA_FAILED
    house.engine.cut_off(other)
    house.tick(seconds=5.0)
    house.tick(seconds=WAIT)
    assert attempt_of(house).cause is Cause.NODE_LOST
    assert (house.job().state, house.job().failures) == (JobState.QUEUED, 0)
    assert house.job().message.startswith("The replica worker 0 was lost: its node")


def test_a_replica_that_has_ended_itself_costs_no_retry(house: House) -> None:
    before = running(house, gpus=4, retry=Retry(whole_job=0))
    house.engine.set(before.id, LOST, sign=LEASE_OVER)
    house.tick()
    assert attempt_of(house).cause is Cause.NODE_LOST
    assert house.job().state is JobState.ACTIVE and house.job().avoid


def test_a_start_waits_for_a_node_that_is_lost_in_between(house: House) -> None:
    house.submit(gpus=4)
    house.loop._catch_up()
    cut = house.engine.start
    house.engine.start = lambda request: None  # type: ignore[method-assign]  # the order is lost on its way
    house.loop.tick()
    (node,) = where(attempt_of(house))
    house.engine.start = cut  # type: ignore[method-assign]
    house.engine.cut_off(node)
    house.tick(2)
    assert (house.job().state, attempt_of(house).state) == (JobState.ACTIVE, AttemptState.PLACED)
    house.engine.comes_back(node)
    house.tick()
    assert house.engine.started == ["p/j.1"]


def test_the_node_to_blame_is_avoided_while_there_is_another_and_only_then(house: House) -> None:
    first = running(house, gpus=4, retry=Retry(whole_job=9))
    house.engine.set("p/j.1", LOST)
    house.tick()
    house.tick(seconds=60.0)
    second = attempt_of(house, number=2)
    assert where(second).isdisjoint(where(first))
    running(house, "k", gpus=4)
    house.engine.set("p/k.1", SUCCEEDED)
    house.engine.set("p/j.2", LOST)
    house.tick()
    house.tick(seconds=60.0)
    assert attempt_of(house, number=3).state is AttemptState.STARTING, "both are to blame, and one has to do (P5)"
    assert set(house.job().avoid) == {"n0", "n1"}


# Lemons

NOW = 1_000_000.0


def lemon_world(count: int, *, faults: dict[str, int], cordoned: tuple[str, ...] = ()) -> World:
    """So many nodes, some of which distinct jobs blame, some of which are cordoned by Stoker already."""
    found: dict[str, Node] = {f"n{n}": a_node(f"n{n}", 4) for n in range(count)}
    records = {
        name: NodeRecord(node=name, faults=tuple(Fault(job=f"p/{n}", at=NOW, what="w") for n in range(jobs)))
        for name, jobs in faults.items()
    }
    for name in cordoned:
        records[name] = NodeRecord(node=name, cordon=Cordon(why="w", by=AUTOMATIC, at=NOW - 60.0))
    return World(nodes=found, records=records)


def judged(world: World, *names: str) -> tuple[list[str], list[str]]:
    failed = [NodeFailed(node=name, job="p/0", at=NOW, what="w") for name in names]
    cordons, alarms = lemons(world, failed, NOW)
    return [change.node for change in cordons], alarms


def test_two_distinct_jobs_within_a_day_make_a_lemon() -> None:
    world = lemon_world(3, faults={"n0": 2, "n1": 1})
    assert judged(world, "n0", "n1") == (["n0"], [])
    one_job = (Fault(job="p/a", at=NOW, what="w"),) * 5
    old = (Fault(job="p/a", at=NOW - 86401.0, what="w"), Fault(job="p/b", at=NOW, what="w"))
    for faults in (one_job, old):
        world.records["n0"] = NodeRecord(node="n0", faults=faults)
        assert judged(world, "n0") == ([], [])


def test_no_more_than_a_tenth_of_a_pool_an_hour_is_cordoned() -> None:
    world = lemon_world(20, faults={"n0": 2, "n1": 2, "n2": 2})
    cordoned, alarms = judged(world, "n0", "n1", "n2")
    assert cordoned == ["n0", "n1"] and len(alarms) == 1 and "n2" in alarms[0] and "2 of 20" in alarms[0]
    few = lemon_world(3, faults={"n0": 2}, cordoned=("n1",))
    assert judged(few, "n0")[0] == []
    few.records["n1"] = NodeRecord(node="n1", cordon=Cordon(why="w", by=AUTOMATIC, at=NOW - 3601.0))
    assert judged(few, "n0")[0] == ["n0"]


def test_the_last_node_that_takes_work_is_never_cordoned() -> None:
    world = lemon_world(1, faults={"n0": math.floor(9.0)})
    cordoned, alarms = judged(world, "n0")
    assert cordoned == [] and "no other node of its kind takes work" in alarms[0]


def test_two_lost_jobs_cordon_their_node_until_somebody_forgives_it(house: House) -> None:
    for name in ("a", "b"):
        house.submit(name, gpus=4 if name == "a" else 1)
        house.tick()
        attempt = attempt_of(house, name)
        house.engine.set(attempt.id, LOST)
        house.tick()
        house.commands.cancel(f"p/{name}", owner="u")
        house.tick(seconds=1.0)
    record = house.store.world().records["n0"]
    assert record.cordon is not None and record.cordon.by == AUTOMATIC
    assert record.cordon.why == "2 jobs failed by it within a day: p/a, p/b"
    house.commands.uncordon("n0", owner="ada")
    house.submit("c", gpus=4)
    house.submit("d", gpus=4)
    house.tick()
    assert house.store.world().records == {}
    assert {job.state for job in house.store.world().jobs.values()} == {JobState.ACTIVE}
