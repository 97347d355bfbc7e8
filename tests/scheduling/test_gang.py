"""How a gang is walked through: what a chooser may say."""

from __future__ import annotations

from stoker.core.spec import Machine
from stoker.scheduling.base import Choice
from stoker.scheduling.free import Free, Indices
from stoker.scheduling.gang import place_gang
from tests.builders import a_node, a_spec


def test_a_chooser_says_the_device_too() -> None:
    def last(machine: Machine, gang: str, fitting: Indices, free: Free) -> Choice:
        return int(fitting[-1]), (3,)

    free = Free([a_node("n0", 4), a_node("n1", 4)])
    places = place_gang("p/j", a_spec(milli=400), free, last)
    assert [(place.node, place.devices) for place in places or ()] == [("n1", ("3",))]
    assert free.devices.tolist() == [[1000] * 4, [1000, 1000, 1000, 600]]


def test_a_chooser_is_asked_for_the_device_even_if_only_one_node_fits() -> None:
    places = place_gang("p/j", a_spec(milli=400), Free([a_node("n0", 4)]), lambda *_: (0, (2,)))
    assert places is not None and places[0].devices == ("2",)


def test_the_amounts_are_one_table_and_its_rows() -> None:
    free = Free([a_node("n0"), a_node("n1")])
    mark = free.checkpoint()
    free.take(1, "chief", 0, Machine(vcpus=1.5, memory_gb=2), "p/j")
    assert free.amounts.tolist() == [[64000, 62500], [256 * 1024, 254 * 1024]]
    assert (free.vcpus_milli == free.amounts[0]).all() and (free.memory_mib == free.amounts[1]).all()
    free.rollback(mark)
    assert free.amounts.tolist() == [[64000, 64000], [256 * 1024, 256 * 1024]]
