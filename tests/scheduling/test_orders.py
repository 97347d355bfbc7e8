"""Machines that are ordered when a job needs them, through the loop, on an engine whose machines the test lets come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.errors import NotReady
from stoker.core.job import Ordered
from stoker.core.node import pool_record
from stoker.core.site import Budget, Pool, Queue, Quota, Site
from stoker.core.spec import Limits
from stoker.core.states import JobState, ReplicaState, ShownState
from stoker.scheduling.pools import machines_of
from tests.builders import House, a_house


def a_pool(name: str = "t4", gpus: int = 4, **changes: object) -> Pool:
    """A pool of machines with so many T4."""
    values: dict[str, object] = {
        "engine": "fake",
        "accelerator": "T4" if gpus else "",
        "accelerators": gpus,
        "vcpus": 16.0,
        "memory_gb": 60.0,
        "zone": "a",
        "most": 12,
        "usd_per_hour": 2.0,
    }
    return Pool(name=name, **{**values, **changes})  # type: ignore[arg-type]


def a_site(*pools: Pool, **rest: object) -> Site:
    """A site with these pools."""
    return Site(pools={pool.name: pool for pool in pools}, **rest)  # type: ignore[arg-type]


CPU = a_pool("cpu", 0, vcpus=8.0, usd_per_hour=0.4)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return a_house(tmp_path, "", site=a_site(a_pool(), CPU))


def waits(house: House, name: str = "j") -> tuple[str, str]:
    """The code and the text of why it waits."""
    reason = house.job(name).waits
    assert reason is not None
    return reason.code, reason.text


def test_the_documents_example_orders_exactly_13_machines(house: House) -> None:
    house.submit(gpus=4, workers=9, ps=3, vcpus=16)
    # parameter servers of 1 vCPU share a machine: let each want one of its own
    house.tick()
    assert house.engine.wanted == {"t4": 10, "cpu": 1}
    assert house.job().ordered == Ordered(
        machines=(("cpu", 1), ("t4", 10)), zone="a", at=house.clock.now(), came_at=house.clock.now()
    )
    assert house.store.job("p/j").state is ShownState.PREPARING
    assert waits(house) == ("PROVISIONING", "0 of 11 machines are up; on order in a: 1 × cpu and 10 × t4")


def test_it_starts_when_all_are_up_and_they_go_when_it_has_ended(house: House) -> None:
    house.submit(gpus=4, workers=9, vcpus=16)
    house.tick()
    house.come(most=9)
    assert waits(house)[1] == "9 of 10 machines are up; on order in a: 1 × t4"
    assert house.engine.wanted == {"t4": 10, "cpu": 0}
    house.come()
    job = house.job()
    assert (job.state, job.ordered) == (JobState.ACTIVE, None)
    attempt = house.store.attempt("p/j.1")
    assert attempt.ordered_usd_per_hour == attempt.usd_per_hour == 20.0
    assert house.engine.wanted == {"t4": 10, "cpu": 0}
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.job().state is JobState.SUCCEEDED
    assert house.engine.wanted == {"t4": 0, "cpu": 0}
    house.come()
    assert house.store.nodes() == []


def test_what_has_come_for_one_is_nobody_elses(house: House) -> None:
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    house.come(most=2)
    house.submit("small", gpus=1, priority=900)
    house.tick()
    assert house.engine.wanted == {"t4": 4, "cpu": 0}
    assert house.job("small").state is JobState.QUEUED
    house.come(most=3)
    assert (house.job().state, house.job("small").state) == (JobState.ACTIVE, JobState.QUEUED)
    house.come()
    assert house.job("small").state is JobState.ACTIVE


def test_small_ones_share_a_machine_that_comes(house: House) -> None:
    for n in range(5):
        house.submit(f"j{n}", gpus=2)
    house.tick()
    assert house.engine.wanted == {"t4": 3, "cpu": 0}
    house.come()
    assert {house.job(f"j{n}").state for n in range(5)} == {JobState.ACTIVE}
    assert len(house.store.nodes()) == 3


def test_a_cancelled_one_needs_no_machines(house: House) -> None:
    house.submit(gpus=4)
    house.tick()
    assert house.engine.wanted == {"t4": 1, "cpu": 0}
    house.commands.cancel("p/j", owner="u")
    house.tick()
    assert house.engine.wanted == {"t4": 0, "cpu": 0}
    assert house.job().ordered is None


def test_after_a_restart_the_order_stands(house: House, tmp_path: Path) -> None:
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    house.come(most=1)
    before = house.job().ordered
    site = house.loop.rules.site
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine, site=site)
    house.engine.wishes.clear()
    heir.tick()
    assert house.engine.wanted == {"t4": 3, "cpu": 0}
    assert heir.job().ordered == before


def test_machines_that_are_there_are_used_first(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4", zone="a", site=a_site(a_pool()))
    house.submit(gpus=4, workers=2)
    house.tick()
    assert house.engine.wanted == {"t4": 1}
    assert waits(house)[1] == "2 of 3 machines are up; on order in a: 1 × t4"


def test_the_cheapest_that_does(tmp_path: Path) -> None:
    dear, cheap, small = a_pool("dear"), a_pool("cheap", usd_per_hour=1.5), a_pool("small", 1, usd_per_hour=0.3)
    house = a_house(tmp_path, "", site=a_site(dear, cheap, small))
    house.submit(gpus=4)
    house.submit("one", gpus=1, vcpus=1)
    house.tick()
    assert house.engine.wanted == {"dear": 0, "cheap": 1, "small": 1}


def test_where_the_cheapest_is_not_enough_the_next_helps(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool("dear"), a_pool("cheap", usd_per_hour=1.5, most=2)))
    house.submit(gpus=4, workers=3, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"dear": 2, "cheap": 2}


def test_all_accelerators_in_one_zone(tmp_path: Path) -> None:
    pools = [a_pool("t4-a", zone="a", most=2, usd_per_hour=1), a_pool("t4-b", zone="b", most=3)]
    house = a_house(tmp_path, "", site=a_site(*pools))
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"t4-a": 0, "t4-b": 3}
    with pytest.raises(NotReady, match="no node here could ever hold"):
        house.submit("big", gpus=4, workers=4, vcpus=16)


def test_a_stock_out_goes_to_the_next_zone_and_leaves_nothing(tmp_path: Path) -> None:
    pools = [a_pool("t4-a", zone="a", usd_per_hour=1), a_pool("t4-b", zone="b")]
    house = a_house(tmp_path, "", site=a_site(*pools))
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    house.come(most=2)
    assert house.engine.wanted == {"t4-a": 3, "t4-b": 0}
    house.engine.refuse("t4-a", "ZONE_RESOURCE_POOL_EXHAUSTED: try a different zone")
    house.tick()
    assert house.engine.wanted == {"t4-a": 0, "t4-b": 3}
    ordered = house.job().ordered
    assert ordered is not None and ordered.zone == "b"
    house.come()
    assert {node.node_pool for node in house.store.nodes()} == {"t4-b"}
    assert house.job().state is JobState.ACTIVE


def test_where_there_is_no_other_zone_the_words_of_the_cloud_are_told(house: House) -> None:
    house.submit(gpus=4)
    house.tick()
    house.engine.refuse("t4", "QUOTA_EXCEEDED: NVIDIA_T4_GPUS, limit 0 in us-west1")
    house.tick()
    code, text = waits(house)
    assert code == "NO_CAPACITY" and "t4: QUOTA_EXCEEDED: NVIDIA_T4_GPUS, limit 0 in us-west1" in text
    assert house.engine.wanted == {"t4": 0, "cpu": 0}
    assert house.store.job("p/j").state is ShownState.QUEUED
    house.tick(seconds=599)
    assert house.engine.wanted == {"t4": 0, "cpu": 0}
    house.tick(seconds=2)
    assert house.engine.wanted == {"t4": 1, "cpu": 0}


def test_an_admin_may_have_it_tried_at_once(house: House) -> None:
    house.submit(gpus=4)
    house.tick()
    house.engine.refuse("t4", "stock-out")
    house.tick()
    house.commands.uncordon(pool_record("t4"), owner="root")
    house.tick()
    assert house.engine.wanted == {"t4": 1, "cpu": 0}


def test_a_cordoned_pool_gives_nothing(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(), a_pool("t4-b", zone="b", usd_per_hour=9)))
    house.commands.cordon(pool_record("t4"), owner="root")
    house.submit(gpus=4)
    house.tick()
    assert house.engine.wanted == {"t4": 0, "t4-b": 1}


def test_machines_that_do_not_come_are_given_up(tmp_path: Path) -> None:
    pools = [a_pool("t4-a", zone="a", usd_per_hour=1), a_pool("t4-b", zone="b")]
    house = a_house(tmp_path, "", site=a_site(*pools, patience_seconds=300.0))
    house.submit(gpus=4, workers=1, vcpus=16)
    house.tick()
    house.tick(seconds=200)
    house.come(most=1)  # one has come: the rest may take as long again
    house.tick(seconds=200)
    assert house.engine.wanted == {"t4-a": 2, "t4-b": 0}
    house.tick(seconds=101)
    assert house.engine.wanted == {"t4-a": 0, "t4-b": 2}
    assert house.store.world().records[pool_record("t4-a")].faults[-1].what == (
        "no machine that was ordered has come for 5 min"
    )


def test_machines_that_are_less_than_the_site_file_says_are_not_ordered_again_and_again(house: House) -> None:
    house.submit(gpus=4, vcpus=16)
    house.tick()
    (node,) = machines_of(a_pool(), [0])
    house.engine.join(replace(node, name="t4-1", vcpus=15.5))
    house.tick()
    assert house.engine.wanted == {"t4": 0, "cpu": 0}
    assert "t4-1 has 15.5 vCPUs, 60 GB and 4 accelerators, where the site file says 16, 60 and 4" in waits(house)[1]


def test_spot_machines_are_for_those_who_give_way(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(), a_pool("spot", spot=True, usd_per_hour=0.5)))
    house.submit(gpus=4)
    house.submit("resumes", gpus=4, resumable=True)
    house.tick()
    assert house.engine.wanted == {"t4": 1, "spot": 1}
    house.come()
    places = {name: house.store.attempt(f"p/{name}.1").placements[0].node for name in ("j", "resumes")}
    assert places["j"].startswith("t4-") and places["resumes"].startswith("spot-")


def test_the_least_are_always_wanted(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(least=2)))
    assert house.engine.wanted == {"t4": 2}


def test_a_cordoned_machine_of_a_pool_is_one_more_where_some_are_to_come(house: House) -> None:
    house.submit(gpus=4)
    house.tick()
    house.come()
    (node,) = house.store.nodes()
    house.commands.cordon(node.name, owner="root")
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.engine.wanted == {"t4": 0, "cpu": 0}, "nobody needs it"
    house.submit("k", gpus=4)
    house.tick()
    assert house.engine.wanted == {"t4": 2, "cpu": 0}


def test_a_machine_that_is_about_to_go_is_no_reason_for_another(house: House) -> None:
    house.submit(gpus=4)
    house.tick()
    house.come()
    (node,) = house.store.nodes()
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.engine.leave(node.name)
    house.engine.join(replace(node, leaving_at=house.clock.now() + 60))
    house.tick()
    assert house.engine.wanted == {"t4": 0, "cpu": 0}


def test_an_hourly_budget_stops_orders(tmp_path: Path) -> None:
    site = a_site(a_pool(), budgets={"default": Budget(usd_per_hour=5.0)})
    house = a_house(tmp_path, "", site=site)
    for name in ("j", "k", "l"):
        house.submit(name, gpus=4, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"t4": 2}
    assert waits(house, "l") == ("BUDGET", "its machines cost 2.00 USD an hour, and the project p holds 4.00 of 5.00")
    house.come()
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.job("l").state is JobState.ACTIVE  # on the machine that is there
    with pytest.raises(NotReady, match=r"costs 6\.00 USD an hour, and the project p may spend 5\.00"):
        house.submit("gang", gpus=4, workers=2, vcpus=16)


def test_a_monthly_budget_stops_orders_until_the_next_month(tmp_path: Path) -> None:
    site = a_site(a_pool(), budgets={"p": Budget(usd_per_month=10.0)})
    house = a_house(tmp_path, "", site=site)  # on 12 January 1970
    house.submit(gpus=4, vcpus=16)
    house.tick()
    house.come()
    house.engine.set("p/j.1", ReplicaState.UP)
    house.tick()
    house.clock.advance(5 * 3600)
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    house.come()
    house.submit("k", gpus=4, vcpus=16)
    house.tick()
    assert waits(house, "k")[1].startswith("the project p has spent 10.00 of the 10.00 USD")
    assert house.engine.wanted == {"t4": 0}
    heir = a_house(tmp_path, store=house.store, clock=house.clock, engine=house.engine, site=site)
    heir.tick()
    assert waits(heir, "k")[0] == "BUDGET"
    heir.tick(seconds=20 * 86400)
    assert heir.engine.wanted == {"t4": 1}


def test_a_quota_counts_what_is_on_order(tmp_path: Path) -> None:
    queue = Queue(name="default", quotas={"T4": Quota(nominal_milli=4000)})
    house = a_house(tmp_path, "", site=a_site(a_pool(), queues={"default": queue}))
    house.submit(gpus=4)
    house.submit("k", gpus=4)
    house.tick()
    assert house.engine.wanted == {"t4": 1}
    assert waits(house, "k")[0] == "QUOTA"


def test_a_pool_is_full(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(most=1)))
    house.submit(gpus=4)
    house.submit("k", gpus=4)
    house.tick()
    assert house.engine.wanted == {"t4": 1}
    assert waits(house, "k")[0] in ("NO_ROOM", "BEHIND", "RESERVED")
    house.come()
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick()
    assert house.job("k").state is JobState.ACTIVE


# What a reviewer's eye found: each of these went wrong once.


def test_machines_are_wanted_at_the_moment_their_gang_starts(house: House) -> None:
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    house.come()
    assert house.job().state is JobState.ACTIVE
    assert [machines["t4"] for machines in house.engine.wishes] == [0, 3]


def test_the_budget_of_one_project_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    site = a_site(a_pool(), budgets={"p": Budget(usd_per_hour=2.0)})
    house = a_house(tmp_path, "", site=site)
    house.submit(gpus=4, vcpus=16)
    house.submit("k", gpus=4, vcpus=16)
    house.tick()
    house.submit("other", project="q", gpus=4, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"t4": 2}
    assert waits(house, "k")[0] == "BUDGET"


def test_one_over_its_budget_is_no_head_before_others(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4", site=a_site(a_pool(), budgets={"p": Budget(usd_per_hour=1.0)}))
    house.submit(gpus=2, limits=Limits(running_seconds=600))
    house.tick()
    house.submit("gang", gpus=4)
    house.tick()
    assert waits(house, "gang")[0] == "BUDGET"
    house.submit("small", gpus=2)  # it runs for longer than the first: with a reservation it would have to wait
    house.tick()
    assert house.job("small").state is JobState.ACTIVE


def test_one_over_its_budget_is_passed_for_so_long_and_no_longer(tmp_path: Path) -> None:
    """On a site of both kinds of machines it waits for those that cost nothing, and small ones would have them for ever."""
    site = a_site(a_pool(), budgets={"p": Budget(usd_per_hour=1.0)}, head_seconds=1000.0)
    house = a_house(tmp_path, "n0:4", site=site)
    house.submit(gpus=2)
    house.tick()
    house.submit("gang", gpus=4)
    house.tick()
    house.submit("small", gpus=2)
    house.tick()
    assert house.job("small").state is JobState.ACTIVE and waits(house, "gang")[0] == "BUDGET"
    house.clock.advance(1000.0)
    house.engine.set("p/j.1", ReplicaState.SUCCEEDED)
    house.tick(2)
    house.submit("next", gpus=2)
    house.tick()
    assert house.job("next").state is JobState.QUEUED, "what is free of n0 is kept"
    house.engine.set("p/small.1", ReplicaState.SUCCEEDED)
    house.tick(2)
    assert house.job("gang").state is JobState.ACTIVE and house.job("next").state is JobState.QUEUED


def test_nobody_waits_for_one_that_only_paid_machines_could_hold(tmp_path: Path) -> None:
    site = a_site(a_pool(), budgets={"p": Budget(usd_per_month=0.0)}, head_seconds=1000.0)
    house = a_house(tmp_path, "n0:4", site=site)
    house.submit("gang", gpus=4, workers=2)
    house.tick()
    house.clock.advance(2000.0)
    house.submit("small", gpus=2)
    house.tick()
    assert house.job("small").state is JobState.ACTIVE and waits(house, "gang")[0] == "BUDGET"


def test_what_costs_nothing_is_used_when_the_budget_is_spent(tmp_path: Path) -> None:
    site = a_site(a_pool(least=1), budgets={"p": Budget(usd_per_hour=0.6)})
    house = a_house(tmp_path, "n0:4", zone="a", site=site)
    house.come()
    house.submit("first", gpus=1)
    house.tick()
    house.submit("second", gpus=1)
    house.submit("third", gpus=1)
    house.tick()
    places = {house.store.attempt(f"p/{name}.1").placements[0].node for name in ("first", "second", "third")}
    assert "n0" in places


def test_of_several_types_one_is_ordered_that_the_queue_may_have(tmp_path: Path) -> None:
    queue = Queue(name="default", quotas={"V100": Quota(nominal_milli=0)})
    pools = [a_pool("v100", accelerator="V100", usd_per_hour=1.0), a_pool("t4", usd_per_hour=3.0)]
    house = a_house(tmp_path, "", site=a_site(*pools, queues={"default": queue}))
    house.submit(milli=1000, types="T4|V100")
    house.tick()
    assert house.engine.wanted == {"v100": 0, "t4": 1}
    house.come()
    assert house.job().state is JobState.ACTIVE


def test_while_nobody_knows_what_is_there_orders_stand(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(most=3)))
    house.submit(gpus=4, workers=2, vcpus=16)
    house.tick()
    house.come(most=2)
    before = house.job().ordered
    for node in house.store.nodes():
        house.engine.cut_off(node.name)
    house.tick()
    assert house.job().ordered == before
    assert house.engine.wanted == {"t4": 3}
    for node in house.store.nodes():
        house.engine.comes_back(node.name)
    house.come()
    assert house.job().state is JobState.ACTIVE


def test_a_dear_machine_does_not_stand_in_for_a_cheap_one(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4", zone="a", vcpus=16.0, site=a_site(a_pool(), CPU))
    house.submit(gpus=4, ps=1, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"t4": 0, "cpu": 1}


def test_what_is_on_its_way_goes_on_though_a_cheaper_pool_may_be_asked_again(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool("cheap", usd_per_hour=1), a_pool("dear")))
    house.submit(gpus=4, workers=1, vcpus=16)
    house.tick()
    house.engine.refuse("cheap", "out of stock")
    house.tick()
    house.come(most=1)
    house.tick(seconds=601)
    assert house.engine.wanted == {"cheap": 0, "dear": 2}


def test_only_the_pool_that_is_late_is_blamed(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(), CPU, patience_seconds=300.0))
    house.submit(gpus=4, ps=1, vcpus=16)
    house.tick()
    (node,) = machines_of(a_pool(), [0])
    house.engine.join(replace(node, name="t4-1"))
    house.tick()
    house.tick(seconds=301)
    assert set(house.store.world().records) == {pool_record("cpu")}


def test_many_get_their_machines(tmp_path: Path) -> None:
    house = a_house(tmp_path, "", site=a_site(a_pool(most=1000)))
    for n in range(150):
        house.submit(f"j{n}", gpus=4, vcpus=16)
    house.tick()
    assert house.engine.wanted == {"t4": 150}


def test_an_overdue_head_gets_its_machine_before_those_for_whom_others_are_ordered(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4", zone="a", site=a_site(a_pool("small", 1, most=50), head_seconds=60.0))
    for n in range(4):
        house.submit(f"first{n}", gpus=1)
    house.tick()
    house.submit("big", gpus=4)
    house.tick(seconds=61)
    for n in range(4):
        house.submit(f"j{n}", gpus=1)
        house.tick()
        house.engine.set(f"p/first{n}.1", ReplicaState.SUCCEEDED)
        house.tick(seconds=1)
    assert house.job("big").state is JobState.ACTIVE


def test_without_its_pools_nothing_is_on_order(house: House, tmp_path: Path) -> None:
    house.submit(gpus=4)
    house.tick()
    heir = a_house(tmp_path, "n0:1", store=house.store, clock=house.clock, site=Site())
    heir.tick()
    assert heir.job().ordered is None and house.store.job("p/j").state is ShownState.QUEUED
