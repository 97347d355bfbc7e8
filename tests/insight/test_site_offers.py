"""What a site has, as offers to train on."""

from __future__ import annotations

from stoker.core.site import Pool
from stoker.hardware.choosing.offers import CPU, Place
from stoker.insight.site_offers import DECLARED, NodeRoom, rooms_of, site_offers, unknown_accelerators
from tests.builders import House, a_node


def rooms(*found: tuple[str, int, float], **changes: object) -> list[NodeRoom]:
    """Nodes, each with so many T4s, of which so many are free."""
    return [NodeRoom(node=a_node(name, gpus, **changes), free=free) for name, gpus, free in found]


def test_machines_that_are_alike_are_one_offer_in_each_count() -> None:
    found = list(site_offers(rooms(("n0", 4, 1.0), ("n1", 4, 2.0)), {}, {}))
    assert [(offer.count, offer.free, offer.whole) for offer in found] == [(1, 3.0, 8.0), (2, 3.0, 8.0), (4, 3.0, 8.0)]
    assert all(offer.place is Place.SITE and offer.machine == "n0 and 1 like it" for offer in found)
    assert "3 of 8 NVIDIA_TESLA_T4 of this site are free now" in found[0].notes


def test_what_is_held_is_said() -> None:
    (found,) = site_offers(rooms(("n0", 1, 0.0)), {}, {})
    assert found.notes[0] == "all 1 of this site are held now: a job would wait"


def test_a_count_that_is_no_power_of_two() -> None:
    assert [offer.count for offer in site_offers(rooms(("n0", 6, 6.0)), {}, {})] == [1, 2, 4, 6]


def test_memory_is_what_the_driver_tells() -> None:
    (told,) = site_offers(rooms(("n0", 1, 1.0)), {}, {"0": 15e9})
    (by_catalog,) = site_offers(rooms(("n0", 1, 1.0)), {}, {"another": 15e9})
    assert (told.device_bytes, by_catalog.device_bytes) == (15e9, 16e9)


def test_a_machine_without_any_is_its_processors() -> None:
    (found,) = site_offers(rooms(("n0", 0, 0.0), vcpus=8.0), {}, {})
    assert (found.name, found.vcpus, found.is_cpu, found.is_own) == (CPU, 8.0, True, True)


def test_declared_machines_say_so() -> None:
    (found,) = site_offers(rooms(("n0", 1, 1.0), virtual=True), {}, {})
    assert DECLARED in found.notes


def test_pools_and_their_machines_have_the_pools_price() -> None:
    pool = Pool(name="big", accelerator="NVIDIA_L4", accelerators=4, vcpus=48, memory_gb=192, most=2, usd_per_hour=4.0)
    on_order = list(site_offers([], {"big": pool}, {}))
    assert [(o.place, o.name, o.count, o.usd_per_hour) for o in on_order] == [(Place.POOL, "NVIDIA_L4", 4, 4.0)]
    there = site_offers(rooms(("n0", 4, 4.0), node_pool="big"), {"big": pool}, {})
    assert [offer.usd_per_hour for offer in there if offer.place is Place.SITE] == [1.0, 2.0, 4.0]


def test_an_accelerator_that_nobody_knows_is_named() -> None:
    odd = rooms(("n0", 2, 2.0), accelerator="ACME_X1")
    assert list(site_offers(odd, {}, {})) == [] and unknown_accelerators(odd) == ["ACME_X1"]


def test_what_is_free_follows_from_who_holds_what(house: House) -> None:
    before = sum(room.free for room in rooms_of(house.store.world()))
    house.submit("a", gpus=1)
    house.tick()
    after = sum(room.free for room in rooms_of(house.store.world()))
    assert before - after == 1 and before > 1


def test_a_machine_that_is_cordoned_is_no_offer(house: House) -> None:
    assert [room.node.name for room in rooms_of(house.store.world())] == ["n0"]
    house.commands.cordon("n0", owner="ada", why="new driver")
    assert rooms_of(house.store.world()) == []
