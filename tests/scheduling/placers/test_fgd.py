"""Fragmentation gradient descent: what is useless, and where a replica goes for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stoker.core.spec import JobSpec
from stoker.scheduling.free import Free
from stoker.scheduling.placers.fgd import Fgd
from stoker.scheduling.pricing.demand import Demand
from stoker.scheduling.pricing.typical import useless_milli
from tests.builders import a_node, a_spec


def wants(milli: int, *, vcpus: float = 1, gpu: str = "T4") -> JobSpec:
    """A job of one replica."""
    spec = a_spec(vcpus=vcpus)
    machine = replace(spec.groups[0].machine, accelerator=gpu if milli else "", accelerator_milli=milli)
    return replace(spec, groups=(replace(spec.groups[0], machine=machine),))


@pytest.mark.parametrize(
    ("asked", "useless"),
    [
        ([wants(500)], 400),  # 400 is left on one device, which is too little
        ([wants(400)], 0),
        ([wants(2000)], 1400),  # no two whole devices: all that is idle
        ([wants(500, vcpus=65)], 1400),  # it fits on no node
        ([wants(500, gpu="V100")], 1400),  # nor does this
        ([wants(0)], 1400),  # who wants no GPU has no use for any
        ([wants(400), wants(500), wants(500), wants(500)], 300),  # by how many they are
        ([wants(400)] * 96 + [wants(2000)] * 4, 0),  # the rarest 4 % do not count
    ],
)
def test_what_is_useless(asked: list[JobSpec], useless: float) -> None:
    free = Free([a_node("n0", 2)])
    free.take(0, "chief", 0, wants(600).groups[0].machine, "p/other")
    assert useless_milli(Demand.of(asked), free) == pytest.approx(useless)


def test_a_share_goes_where_it_leaves_nothing_useless() -> None:
    free = Free([a_node("n0", 1), a_node("n1", 1)])
    free.take(0, "chief", 0, wants(300).groups[0].machine, "p/other")  # 700 are left
    free.take(1, "chief", 0, wants(500).groups[0].machine, "p/other")
    places = Fgd(known=[wants(500)]).place("p/j", wants(500), free)
    assert places is not None and places[0].node == "n1"


def test_what_is_typical_is_learnt() -> None:
    """Who wants whole devices makes it spare them; who wants shares of any size does not."""
    nodes, taught, fresh = [a_node("n0", 1), a_node("n1", 2)], Fgd(), Fgd()
    for _ in range(40):
        taught.learns(wants(2000))
    assert [p.node for p in taught.place("p/j", wants(1000), Free(nodes)) or ()] == ["n0"]
    assert fresh.place("p/j", wants(1000), Free(list(reversed(nodes)))) is not None


def test_a_known_mix_is_not_added_to() -> None:
    placer = Fgd(known=[wants(500)])
    demand = placer._learner.demand
    for _ in range(100):
        placer.learns(wants(2000))
    assert placer._learner.demand is demand


def test_gains_so_great_that_they_overflow_are_the_highest_level() -> None:
    free = Free([a_node("n0", 64)])
    assert Fgd(known=[wants(0)]).place("p/j", wants(64000), free) is not None
    assert np.isfinite(free.milli).all()
