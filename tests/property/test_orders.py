"""Whatever happens: orders stay within pools and budgets, everybody gets their machines in the end, and none is left."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import NotReady
from stoker.core.site import Budget, Pool, Site
from stoker.core.states import AttemptState, JobState, ReplicaState
from tests.builders import House, a_house

MOST_USD_PER_HOUR = 9.0
GPUS: dict[str, Any] = {"engine": "fake", "accelerator": "T4", "vcpus": 16, "memory_gb": 60}
POOLS = [
    Pool(name="a", **GPUS, accelerators=4, zone="a", most=3, usd_per_hour=2),
    Pool(name="b", **GPUS, accelerators=4, zone="b", most=4, usd_per_hour=2.5),
    Pool(name="small", **GPUS, accelerators=1, zone="b", most=2, usd_per_hour=0.4),
    Pool(name="spot", **GPUS, accelerators=4, zone="a", most=2, usd_per_hour=0.7, spot=True),
    Pool(name="cpu", engine="fake", vcpus=8, memory_gb=30, zone="a", least=1, most=3, usd_per_hour=0.3),
]
SITE = Site(
    pools={pool.name: pool for pool in POOLS},
    budgets={"default": Budget(usd_per_hour=MOST_USD_PER_HOUR)},
    patience_seconds=300.0,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"), st.sampled_from([0, 1, 2, 4]), st.integers(0, 3), st.sampled_from([1.0, 6.0, 16.0]), st.booleans()
        ),
        st.tuples(st.just("come"), st.integers(0, 4)),
        st.tuples(st.just("refuse"), st.sampled_from(sorted(SITE.pools))),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 60.0, 400.0, 700.0])),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)  # fmt: skip


def check(house: House) -> None:
    """What holds after every step."""
    for name, count in house.engine.wanted.items():
        assert SITE.pools[name].least <= count <= SITE.pools[name].most, house.engine.wanted
    world = house.store.world()
    held = sum(attempt.ordered_usd_per_hour for attempt in world.attempts.values())
    assert held <= MOST_USD_PER_HOUR + 1e-6
    for attempt in world.attempts.values():
        spec = world.jobs[attempt.job].spec
        nodes = [world.nodes[place.node] for place in attempt.placements]
        assert spec.gives_way or not any(node.spot for node in nodes)
        roles = {group.role: group.machine for group in spec.groups}
        zones = {world.nodes[p.node].zone for p in attempt.placements if roles[p.role].accelerator_milli}
        assert len(zones) <= 1
    assert house.loop._world == world


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_whatever_happens(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        house = a_house(Path(folder), "", site=SITE)
        submitted: list[str] = []
        for step in steps:
            house = carry_out(house, step, submitted, Path(folder))
            house.tick()
            check(house)
        # In the end everybody has run, one after the other, and nobody has machines that nobody needs.
        for _ in range(40 + 8 * len(submitted)):
            house.come()
            end_all(house)
            house.tick(seconds=61)
            check(house)
        assert not house.store.world().jobs
        assert house.engine.wanted == {name: pool.least for name, pool in SITE.pools.items()}


def carry_out(house: House, step: tuple[object, ...], submitted: list[str], folder: Path) -> House:
    """One step. Returns the control plane that goes on."""
    match step:
        case ("submit", int(gpus), int(workers), float(vcpus), bool(resumable)):
            name = f"j{len(submitted)}"
            try:
                house.submit(
                    name, gpus=gpus, workers=workers, vcpus=min(vcpus, 8.0 if gpus == 0 else 16.0), resumable=resumable
                )
                submitted.append(name)
            except NotReady:
                pass  # it could never be had
        case ("come", int(most)):
            house.come(most=most)
        case ("refuse", str(pool)):
            house.engine.refuse(pool, "out of stock")
        case ("end", int(n)) if n < len(submitted):
            attempt = house.store.world().attempt(f"p/{submitted[n]}")
            if attempt is not None and attempt.state in (AttemptState.STARTING, AttemptState.RUNNING):
                house.engine.set(attempt.id, ReplicaState.SUCCEEDED)
        case ("cancel", int(n)) if n < len(submitted):
            if house.job(submitted[n]).state in (JobState.QUEUED, JobState.ACTIVE):
                house.commands.cancel(f"p/{submitted[n]}", owner="u")
        case ("wait", float(seconds)):
            house.tick(seconds=seconds)
        case ("restart",):
            return a_house(
                folder, store=house.store, clock=house.clock, engine=house.engine, site=SITE, made=house.made
            )
    return house


def end_all(house: House) -> None:
    """Whatever runs is done, and whatever is asked to stop has stopped."""
    for attempt in list(house.store.world().attempts.values()):
        if attempt.state is AttemptState.STOPPING:
            house.engine.gone(attempt.id)
        else:
            house.engine.set(attempt.id, ReplicaState.SUCCEEDED)
