"""What the machines cost that an attempt holds."""

from __future__ import annotations

import pytest

from stoker.core.copies import replace
from stoker.core.job import Placement
from stoker.core.node import Node
from stoker.core.site import Pool
from stoker.core.spec import JobSpec
from stoker.scheduling.costs import hourly_costs
from tests.builders import a_node, a_spec

POOL = Pool(name="t4", accelerator="T4", accelerators=4, vcpus=16, memory_gb=60, most=9, usd_per_hour=2.0)


def cost(spec: JobSpec, *nodes: Node, pool: Pool = POOL) -> tuple[float | None, float]:
    """One replica of each group on each node in turn."""
    roles = [(group.role, index) for group in spec.groups for index in range(group.count)]
    places = [
        Placement(role=role, index=index, node=nodes[n % len(nodes)].name) for n, (role, index) in enumerate(roles)
    ]
    return hourly_costs(spec, places, {node.name: node for node in nodes}, {pool.name: pool})


def of_pool(name: str) -> Node:
    return a_node(name, 4, vcpus=16.0, memory_gb=60.0, node_pool="t4")


def test_a_machine_of_a_pool_by_the_share_of_what_is_taken_most() -> None:
    assert cost(a_spec(4), of_pool("a")) == (2.0, 2.0)
    assert cost(a_spec(1), of_pool("a")) == (0.5, 0.5)
    assert cost(a_spec(1, vcpus=16), of_pool("a")) == (2.0, 2.0)
    assert cost(a_spec(milli=500), of_pool("a")) == (0.25, 0.25)


def test_replicas_on_one_machine_cost_no_more_than_it() -> None:
    assert cost(a_spec(2, workers=1, vcpus=12), of_pool("a")) == (2.0, 2.0)
    assert cost(a_spec(4, workers=2), of_pool("a"), of_pool("b"), of_pool("c")) == (6.0, 6.0)


def test_machines_of_ones_own_at_the_catalogs_price_which_nobody_pays() -> None:
    spec = a_spec(4)
    machine = replace(spec.groups[0].machine, type="n1-highcpu-16", accelerator="NVIDIA_TESLA_T4")
    spec = replace(spec, groups=(replace(spec.groups[0], machine=machine),))
    known, ordered = cost(spec, a_node("n0", 8, accelerator="NVIDIA_TESLA_T4"))
    assert (known, ordered) == (pytest.approx(0.5664 + 4 * 0.35, abs=0.01), 0.0)


def test_where_a_price_is_missing_the_whole_is_unknown() -> None:
    assert cost(a_spec(1), a_node("n0", 4)) == (None, 0.0)
    assert cost(a_spec(1, workers=1), a_node("n0", 4), of_pool("a")) == (None, 0.5)
    assert cost(a_spec(1), of_pool("a"), pool=replace(POOL, usd_per_hour=None)) == (None, 0.0)


def test_a_rehearsal_costs_nothing() -> None:
    assert cost(a_spec(4, pool="rehearsal/p/j"), of_pool("a")) == (0.0, 0.0)
