"""Who is placed, in which order, and why the rest waits."""

from __future__ import annotations

from dataclasses import replace

from stoker.core.changes import Explain, Open
from stoker.core.job import Job
from stoker.core.site import Backfill, Site
from stoker.core.spec import ANY_ACCELERATOR
from stoker.core.states import JobState
from stoker.core.world import World
from stoker.scheduling.decide import decide, ever_fits
from stoker.scheduling.explain import nearest_shape, wanted
from stoker.scheduling.free import Free
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.plan import Plan
from stoker.scheduling.rules import rules_of
from tests.builders import a_job, a_node, a_spec, nodes

NOW = 1_000_100.0


def a_world(text: str, *jobs: Job) -> World:
    return World(jobs={job.id: job for job in jobs}, nodes={node.name: node for node in nodes(text)})


def ask(world: World, **options: bool) -> Plan:
    return decide(world, NOW, rules_of(Site(backfill=Backfill.STRICT)), **options)


def opened(plan: Plan) -> list[str]:
    return [change.attempt.job for change in plan.changes if isinstance(change, Open)]


def test_first_come_first_served() -> None:
    plan = ask(a_world("n0:4", a_job("b", at=2.0, gpus=4), a_job("a", at=1.0, gpus=4)))
    assert opened(plan) == ["p/a"]
    assert plan.waits["p/b"].code == "NO_ROOM"


def test_greater_priority_first_then_the_id() -> None:
    jobs = [a_job("c", gpus=1), a_job("b", gpus=1), a_job("a", gpus=1, priority=5)]
    assert opened(ask(a_world("n0:2", *jobs))) == ["p/a", "p/b"]


def test_who_waits_holds_back_those_who_want_the_same() -> None:
    big, small, cpu = a_job("big", at=1.0, gpus=8), a_job("small", at=2.0, gpus=1), a_job("cpu", at=3.0)
    held = a_world("n0:4 n1:8", a_job("taker", at=0.0, gpus=8), big, small, cpu)
    plan = ask(held)
    assert opened(plan) == ["p/taker", "p/cpu"]
    assert (plan.waits["p/big"].code, plan.waits["p/small"].code) == ("NO_ROOM", "BEHIND")


def test_pools_do_not_hold_each_other_back() -> None:
    world = a_world("n0:4", a_job("taker", at=0.0, gpus=4), a_job("waits", at=1.0, gpus=4))
    world.jobs["p/guest"] = a_job("guest", at=2.0, gpus=4, pool="rehearsal/p/guest")
    world.nodes["r0"] = a_node("r0", 4, pool="rehearsal/p/guest")
    assert opened(ask(world)) == ["p/taker", "p/guest"]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    world = a_world("n0:4 n1:4", a_job(gpus=4, workers=2))
    plan = ask(world)
    assert not opened(plan) and plan.waits["p/j"].code == "NO_SUCH_NODES"
    assert opened(ask(a_world("n0:4 n1:4 n2:4", a_job(gpus=4, workers=2)))) == ["p/j"]


def test_the_documents_cluster_takes_thirteen_places() -> None:
    text = " ".join([*(f"t{n}:4" for n in range(10)), *(f"c{n}:0" for n in range(3))])
    plan = ask(a_world(text, a_job(gpus=4, workers=9, ps=3)))
    (change,) = plan.changes
    assert isinstance(change, Open)
    places = change.attempt.placements
    assert [p.role for p in places] == ["chief", *["worker"] * 9, *["ps"] * 3]
    assert len({p.node for p in places if p.devices}) == 10
    assert all(p.devices == ("0", "1", "2", "3") for p in places if p.role != "ps")
    assert {p.node[0] for p in places if p.role == "ps"} == {"c"}, "parameter servers prefer nodes without GPUs"


def test_all_accelerators_of_a_job_are_in_one_zone() -> None:
    world = a_world("a0:4 b0:4", a_job(gpus=4, workers=1))
    world.nodes["b0"] = a_node("b0", 4, zone="elsewhere")
    assert not opened(ask(world))
    world.nodes["b0"] = a_node("b0", 4)
    assert opened(ask(world)) == ["p/j"]


def test_a_node_of_another_region_is_not_taken() -> None:
    world = a_world("n0:4", a_job(gpus=4, region="us-east1"))
    world.nodes["n0"] = a_node("n0", 4, region="us-west1")
    assert not opened(ask(world))
    world.nodes["n0"] = a_node("n0", 4, region="us-east1")
    assert opened(ask(world)) == ["p/j"]


def test_a_soft_node_takes_one_gang_over_its_measure_but_not_two() -> None:
    world = a_world("", a_job("a", at=1.0, vcpus=4.0, workers=1), a_job("b", at=2.0, vcpus=4.0))
    world.nodes["laptop"] = a_node("laptop", vcpus=2.0, memory_gb=1.0, soft=True)
    plan = ask(world)
    assert opened(plan) == ["p/a"]


def test_a_soft_node_counts_gpus_strictly() -> None:
    world = a_world("", a_job(gpus=2))
    world.nodes["box"] = a_node("box", 1, soft=True)
    assert not opened(ask(world))


def test_a_hard_node_counts_vcpus() -> None:
    world = a_world("", a_job("a", at=1.0, vcpus=4.0), a_job("b", at=2.0, vcpus=4.0), a_job("c", at=3.0, vcpus=1.0))
    world.nodes["n"] = a_node("n", vcpus=8.0)
    assert opened(ask(world)) == ["p/a", "p/b"]


def test_hold_places_nobody_and_says_so() -> None:
    plan = ask(a_world("n0:4", a_job(gpus=1)), hold=True)
    assert not opened(plan) and plan.waits["p/j"].code == "HELD"


def test_a_reason_is_written_once() -> None:
    world = a_world("n0:4", a_job(gpus=4), a_job("k", at=2_000_000.0, gpus=4))
    first = ask(world)
    (explained,) = [change for change in first.changes if isinstance(change, Explain)]
    world.jobs["p/k"] = replace(world.jobs["p/k"], waits=explained.reason)
    assert not [change for change in ask(world).changes if isinstance(change, Explain)]


def test_ever_fits_is_asked_of_empty_nodes() -> None:
    world = a_world("n0:4", a_job("runs", gpus=4))
    assert opened(ask(world)) == ["p/runs"]
    assert ever_fits(a_spec(gpus=4), world.nodes.values(), BestFit())
    assert not ever_fits(a_spec(gpus=5), world.nodes.values(), BestFit())
    assert not ever_fits(a_spec(gpus=4, workers=1), world.nodes.values(), BestFit())


def test_the_nearest_shape_is_said() -> None:
    text = nearest_shape(a_spec(gpus=4, workers=9), nodes("n0:4 n1:4 n2:4 c:0"), BestFit())
    assert "3 node(s) of 4 T4" in text and "2 worker(s)" in text
    assert wanted(a_spec(gpus=4, workers=9, ps=3)) == "10 × 4 T4 and 3 × 1 vCPU"


def test_decide_reads_the_world_and_never_writes_it() -> None:
    world = a_world("n0:4", a_job(gpus=4), a_job("k", gpus=4))
    before = (dict(world.jobs), dict(world.attempts), dict(world.nodes))
    ask(world)
    assert (world.jobs, world.attempts, world.nodes) == before
    assert world.jobs["p/j"].state is JobState.QUEUED


def test_a_gang_that_found_no_place_leaves_nothing_taken() -> None:
    free = Free(nodes("n0:4 n1:2"))
    assert BestFit().place("p/big", a_spec(gpus=4, workers=1), free) is None
    assert free.whole.tolist() == [4, 2]
    assert not free.holders.any()
    assert BestFit().place("p/small", a_spec(gpus=4), free) is not None


def test_who_can_never_be_placed_holds_nobody_back() -> None:
    world = a_world("n0:1", a_job("gone", at=1.0, gpus=2), a_job("fits", at=2.0, gpus=1))
    plan = ask(world)
    assert opened(plan) == ["p/fits"] and plan.waits["p/gone"].code == "NO_SUCH_NODES"


def test_who_takes_any_gpu_is_not_overtaken_by_who_wants_a_type() -> None:
    runs, wants_any, small = a_job("runs", at=0.0, gpus=1), a_job("any", at=1.0, gpus=2), a_job("small", at=2.0, gpus=1)
    machine = replace(wants_any.spec.groups[0].machine, accelerator=ANY_ACCELERATOR)
    groups = (replace(wants_any.spec.groups[0], machine=machine),)
    world = a_world("n0:2", runs, replace(wants_any, spec=replace(wants_any.spec, groups=groups)), small)
    plan = ask(world)
    assert opened(plan) == ["p/runs"]
    assert (plan.waits["p/any"].code, plan.waits["p/small"].code) == ("NO_ROOM", "BEHIND")
