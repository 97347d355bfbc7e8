"""How many replicas a machine runs, over all its nodes, pools and jobs; and what is refused because of it."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stoker.core.changes import Open
from stoker.core.job import Job
from stoker.core.node import Cordon, NodeRecord, replicas_by_memory
from stoker.core.site import Site
from stoker.core.spec import JobSpec
from stoker.core.world import World, apply
from stoker.scheduling.base import Placer
from stoker.scheduling.decide import decide, ever_fits
from stoker.scheduling.explain import nearest_shape
from stoker.scheduling.free import Free
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.placers.pack import Pack
from stoker.scheduling.placers.spread import Spread
from stoker.scheduling.rules import rules_of
from tests.builders import a_job, a_node, a_spec, an_attempt, nodes

NOW = 1_000_100.0
SHARED: dict[str, Any] = {"most_replicas": 6, "shares_machine": True}


def a_world(*jobs: Job, running: tuple[str, ...] = (), pooled: str = "") -> World:
    """Three nodes on one machine of six replicas, and, for a rehearsal, three more of a pool there."""
    there = nodes("n0:0 n1:0 n2:0", **SHARED)
    there += nodes("r0:0 r1:0 r2:0", pool=pooled, **SHARED) if pooled else []
    world = World(jobs={job.id: job for job in jobs}, nodes={node.name: node for node in there})
    for name in running:
        apply(world, Open(attempt=an_attempt(world.jobs[name], placed_at=NOW)))
    return world


def opened(world: World) -> list[str]:
    """Who is placed now."""
    return [change.attempt.job for change in decide(world, NOW, rules_of(Site())).changes if isinstance(change, Open)]


@pytest.mark.parametrize("placer", [BestFit(), Pack(), Spread()], ids=["best-fit", "pack", "spread"])
def test_nodes_of_one_machine_share_what_it_runs(placer: Placer) -> None:
    free = Free(nodes("n0:0 n1:0 n2:0", **SHARED))
    assert placer.place("p/a", a_spec(workers=4), free) is not None
    assert placer.place("p/b", a_spec(workers=1), free) is None
    assert placer.place("p/b", a_spec(), free) is not None
    assert placer.place("p/c", a_spec(), free) is None


def test_a_machine_of_its_own_has_its_own() -> None:
    free = Free(nodes("n0:0 n1:0", most_replicas=2))
    assert BestFit().place("p/a", a_spec(workers=3), free) is not None
    assert BestFit().place("p/b", a_spec(), free) is None


def test_what_is_given_back_is_free_again() -> None:
    free = Free(nodes("n0:0", **SHARED))
    mark = free.checkpoint()
    assert BestFit().place("p/a", a_spec(workers=5), free) is not None
    assert free.slots.on(0) == 0
    free.rollback(mark)
    assert free.slots.on(0) == 6


def test_more_nodes_change_nothing_of_what_is_taken() -> None:
    free = Free(nodes("n0:0 n1:0", **SHARED))
    BestFit().place("p/a", a_spec(workers=3), free)
    more = free.with_more([a_node("~x/0")])
    assert (more.slots.on(0), more.slots.on_all(np.arange(2))) == (2, 2)


def test_who_finds_no_slot_waits_and_is_told() -> None:
    world = a_world(a_job("runs", workers=4), a_job("waits", at=2.0, workers=1), running=("p/runs",))
    plan = decide(world, NOW, rules_of(Site()))
    reason = plan.waits["p/waits"]
    assert reason.code == "NO_ROOM"
    assert "one machine, which runs at most 6 replicas at a time" in reason.text


def test_a_rehearsal_shares_the_machine_with_all_others() -> None:
    world = a_world(a_job("runs", workers=4), a_job("rehearsal", pool="r", workers=1), running=("p/runs",), pooled="r")
    assert opened(world) == []
    alone = a_world(a_job("rehearsal", pool="r", workers=1), pooled="r")
    assert opened(alone) == ["p/rehearsal"]


def test_what_runs_on_a_node_that_takes_no_work_counts() -> None:
    world = a_world(a_job("runs", workers=4), a_job("waits", at=2.0, workers=1), running=("p/runs",))
    world.records["n0"] = NodeRecord(node="n0", cordon=Cordon(why="", by="u", at=NOW))
    assert opened(world) == []
    del world.attempts["p/runs.1"], world.attempt_of["p/runs"]
    assert "p/waits" in opened(world)


def test_a_preemptible_gang_gives_its_slots_back() -> None:
    there = nodes("n0:0", **SHARED)
    jobs = [a_job("runs", workers=5, preemptible=True), a_job("waits", at=2.0, priority=9, workers=5)]
    world = World(jobs={job.id: job for job in jobs}, nodes={node.name: node for node in there})
    apply(world, Open(attempt=an_attempt(jobs[0], placed_at=1.0)))
    assert decide(world, NOW + 3600, rules_of(Site())).waits["p/waits"].code == "MAKING_ROOM"


def a_huge(workers: int, vcpus: float = 1.0, **spec: Any) -> JobSpec:
    """A chief, and so many workers."""
    return a_spec(workers=workers, vcpus=vcpus, **spec)


@pytest.mark.parametrize("workers", [6, 10_000, 10**9, 2**63 - 1])
@pytest.mark.parametrize("vcpus", [1.0, 0.0001])
@pytest.mark.parametrize("node", [{"soft": True, **SHARED}, SHARED, {"most_replicas": 2}], ids=["soft", "one", "own"])
def test_a_huge_gang_is_refused_at_once_with_the_most_that_fits(
    workers: int, vcpus: float, node: dict[str, Any]
) -> None:
    there, spec = nodes("n0:0 n1:0 n2:0", **node), a_huge(workers, vcpus)
    tracemalloc.start()
    begin = time.process_time()
    assert not ever_fits(spec, there, BestFit())
    assert nearest_shape(spec, there, BestFit()).endswith("It could hold the same job with 5 worker(s).")
    assert time.process_time() - begin < 1.0
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_the_largest_groups_are_cut_first() -> None:
    said = nearest_shape(a_spec(workers=10**9, ps=2), nodes("n0:0", **SHARED), BestFit())
    assert said.endswith("the same job with 3 worker(s), 2 ps(s).")
    said = nearest_shape(a_spec(workers=10**9, ps=10**9), nodes("n0:0", **SHARED), BestFit())
    assert said.endswith("the same job with 2 worker(s), 3 ps(s).")


def test_what_does_not_fit_with_the_bound_is_searched_for() -> None:
    groups = a_spec(gpus=3, workers=100).groups
    there = nodes("n0:4 n1:4 n2:4", most_replicas=100)
    assert nearest_shape(replace(a_spec(), groups=groups), there, BestFit()).endswith("with 2 worker(s).")
    two_zones = [*nodes("n0:4 n1:4", zone="a"), *nodes("n2:4 n3:4 n4:4", zone="b")]
    assert nearest_shape(replace(a_spec(), groups=groups), two_zones, BestFit()).endswith("with 2 worker(s).")


def test_a_machine_of_a_cluster_runs_as_many_as_its_memory_allows() -> None:
    assert (replicas_by_memory(0.0), replicas_by_memory(0.05), replicas_by_memory(8.0)) == (0, 1, 64)
