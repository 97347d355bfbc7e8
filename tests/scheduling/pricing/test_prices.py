"""The tables of prices: that they are numbers whatever was asked for, and what they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec
from stoker.scheduling.free import Free
from stoker.scheduling.pricing.demand import Demand
from stoker.scheduling.pricing.fleet import Fleet, fleet_of
from stoker.scheduling.pricing.prices import prices_of
from tests.builders import a_node, a_spec

MIXED = [a_spec(gpus=1), a_spec(gpus=4, vcpus=8), a_spec(milli=250), a_spec()]


def a_fleet(*gpus: int, **changes: object) -> Fleet:
    """Nodes with so many GPUs each."""
    return fleet_of(Free(a_node(f"n{n}", count, **changes) for n, count in enumerate(gpus)))[0]


@pytest.mark.parametrize("fleet", [a_fleet(), a_fleet(0), a_fleet(8, 8, 4, 0), a_fleet(1, vcpus=0.0, memory_gb=0.0)])
@pytest.mark.parametrize("asked", [[], [a_spec()], [a_spec(gpus=16)], [a_spec(milli=1, vcpus=0)], MIXED])
def test_they_are_numbers(fleet: Fleet, asked: Sequence[JobSpec]) -> None:
    prices = prices_of(Demand.of(asked), fleet)
    for table in (prices.device, prices.lack, prices.needs, prices.toll):
        assert np.isfinite(table).all()
    assert prices.needs.shape == (3, 2, len(fleet.kinds)) and len(prices.toll) == len(fleet.kinds)
    assert prices.most_vcpus_milli > 0


def test_equal_nodes_are_of_one_kind_whatever_their_names() -> None:
    fleet = a_fleet(8, 4, 8, 0)
    assert sorted(zip((kind.devices for kind in fleet.kinds), fleet.counts, strict=True)) == [(0, 1), (4, 1), (8, 2)]
    assert fleet == a_fleet(0, 8, 8, 4)


def test_fewer_whole_devices_lose_more_where_several_are_asked_for() -> None:
    lack = prices_of(Demand.of([a_spec(gpus=4)]), a_fleet(8)).lack
    assert lack[0] == lack[3] > lack[4] == lack[8] == 0
    assert not prices_of(Demand.of([a_spec(gpus=1)]), a_fleet(8)).lack.any()


def test_a_type_has_a_toll_by_how_much_those_want_of_it_who_take_no_other() -> None:
    nodes = [a_node("n0", 1), *(a_node(f"n{n}", 1, accelerator="V100") for n in range(1, 4))]
    fleet = fleet_of(Free(nodes))[0]
    toll = dict(zip((kind.accelerator for kind in fleet.kinds), prices_of(Demand.of(MIXED), fleet).toll, strict=True))
    assert toll["T4"] > 1 and toll["V100"] < 1e-6


def test_who_takes_any_type_of_its_region_is_no_narrower_for_the_other_regions() -> None:
    types = ["T4", "V100", "V100", "V100"]
    nodes = [a_node(f"{r}-{n}", 1, accelerator=t, region=r) for r in ("here", "there") for n, t in enumerate(types)]
    asked = [a_spec(milli=500, region=region) for region in ("here", "there")]  # T4
    asked += [replace(spec, groups=tuple(_of_any_type(group) for group in spec.groups)) for spec in asked]
    fleet = fleet_of(Free(nodes))[0]
    for kind, toll in zip(fleet.kinds, prices_of(Demand.of(asked), fleet).toll, strict=True):
        assert (toll > 1) if kind.accelerator == "T4" else toll < 1e-6


def _of_any_type(group: Group) -> Group:
    return replace(group, machine=replace(group.machine, accelerator=ANY_ACCELERATOR))
