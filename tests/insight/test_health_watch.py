"""Machines that fail are given nothing new, and get work again when they pass; never too many; an admin has the last word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, Reading
from stoker.insight.health import Verdict
from stoker.insight.health_watch import BY, HealthWatch
from stoker.insight.live_world import LiveWorld
from stoker.sampling.history import History
from stoker.sampling.monitor import COUNTERS, Monitor
from stoker.sampling.sample import Sample
from tests.builders import House, a_house, a_node

FINE: Mapping[str, float] = {"ecc_uncorrected": 0.0}


class Site:
    """Machines with a GPU each that a driver reads."""

    def __init__(self, house: House, folder: Path, count: int) -> None:
        self.house = house
        house.engine.join(*(a_node(f"m{n}", 0, devices=(f"GPU-{n}",), accelerator="T4") for n in range(count)))
        house.tick()
        self.monitor = Monitor(History(folder / "samples.db", COUNTERS, clock=house.clock.now), house.clock.now)
        self.watch = HealthWatch(
            monitor=self.monitor,
            live=LiveWorld(house.store),
            clock=house.clock,
            cordon=lambda node, why: house.commands.cordon(node, owner=BY, why=why),
            uncordon=lambda node: house.commands.uncordon(node, owner=BY),
        )

    def show(self, **bad: Mapping[str, float] | Fault) -> list[str]:
        """Every machine is sampled and looked at, those that are named with this. Returns who is cordoned by us."""
        self.house.clock.advance(15.0)
        for node in self.house.store.world().nodes.values():
            found = bad.get(node.name, FINE)
            gpus = [
                Reading(
                    device=Device(index=0, uuid=uuid, product="T4", memory_bytes=16 << 30),
                    values={} if isinstance(found, Fault) else {**FINE, **found},
                    fault=found if isinstance(found, Fault) else None,
                )
                for uuid in node.devices
            ]
            self.monitor.hear([node], Sample(at=self.house.clock.now(), host={"cpu_percent": 1.0}, gpus=gpus))
        self.watch.look()
        records = self.house.store.world().records
        return [
            name for name, record in sorted(records.items()) if record.cordon is not None and record.cordon.by == BY
        ]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(a_house(tmp_path, "n0:0"), tmp_path, 3)


BAD: Mapping[str, float] = {"ecc_uncorrected": 2.0}


def test_one_that_fails_twice_is_taken_out_and_let_back_when_it_passes_twice(site: Site) -> None:
    assert site.show(m1=BAD) == [] and site.show(m1=BAD) == ["m1"]
    cordon = site.house.store.world().records["m1"].cordon
    assert cordon is not None and cordon.why.startswith("GPU GPU-1: ecc: 2 errors")
    assert site.show(m1=BAD) == ["m1"] and site.show() == ["m1"] and site.show() == []


def test_a_single_bad_look_is_no_failure(site: Site) -> None:
    assert site.show(m1=Fault.STUCK) == [] == site.show() == site.show(m1=Fault.STUCK)


def test_what_an_admin_lets_back_stays_until_it_fails_in_another_way(site: Site) -> None:
    site.show(m1=BAD)
    assert site.show(m1=BAD) == ["m1"]
    site.house.commands.uncordon("m1", owner="admin")
    assert site.show(m1=BAD) == [] == site.show(m1=BAD) == site.show(m1=BAD)
    site.house.clock.advance(3600.0)
    assert site.show(m1={"recovery_action": 2.0}) == ["m1"]


def test_an_admin_s_cordon_is_nobody_else_s(site: Site) -> None:
    site.house.commands.cordon("m1", owner="admin", why="mine")
    for _ in range(3):
        assert site.show(m1=BAD) == [] == site.show()
    record = site.house.store.world().records["m1"].cordon
    assert record is not None and record.by == "admin"


def test_never_more_than_a_tenth_within_an_hour(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.show(m0=BAD, m1=BAD)
    assert site.show(m0=BAD, m1=BAD) == ["m0"] and "too many machines have failed" in caplog.text
    site.house.clock.advance(3600.0)
    assert site.show(m0=BAD, m1=BAD) == ["m0", "m1"]


def test_what_it_finds_can_be_asked_for(site: Site) -> None:
    site.show(m2=Fault.LOST)
    assert [check.verdict for check in site.watch.checks("m2")] == [Verdict.PASS, Verdict.FAIL]
    assert [check.name for check in site.watch.checks("n0")] == ["memory"]
    with pytest.raises(KeyError):
        site.watch.checks("none")


def test_one_that_is_not_sampled_is_let_be(site: Site) -> None:
    site.watch.look()
    site.watch.look()
    assert not site.house.store.world().records
