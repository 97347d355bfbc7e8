"""What every placer must do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.scheduling.base import Placer
from stoker.scheduling.free import Free
from tests.builders import a_node, a_spec

NODES = st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["T4", "V100"]), st.sampled_from("ab")), max_size=6)


OF_A_CONTRACT = [HealthCheck.differing_executors]  # every subclass runs the same function


class PlacerContract:
    """Subclass it and give `make`."""

    def make(self) -> Placer:
        """The placer."""
        raise NotImplementedError

    @settings(max_examples=150, suppress_health_check=OF_A_CONTRACT)
    @given(NODES, st.integers(0, 5), st.integers(0, 4), st.integers(0, 3))
    def test_the_whole_gang_or_nothing_and_never_more_than_there_is(
        self, shapes: list[tuple[int, str, str]], gpus: int, workers: int, ps: int
    ) -> None:
        nodes = {f"n{n}": a_node(f"n{n}", g, accelerator=t if g else "", zone=z) for n, (g, t, z) in enumerate(shapes)}
        free, spec = Free(nodes.values()), a_spec(gpus=gpus, workers=workers, ps=ps)
        before = {name: _free_devices(free, name) for name in nodes}
        places = self.make().place("p/j", spec, free)
        if places is None:
            assert {name: _free_devices(free, name) for name in nodes} == before
            return
        assert Counter(p.role for p in places) == Counter({g.role: g.count for g in spec.groups})
        held = [(p.node, device) for p in places for device in p.devices]
        assert len(set(held)) == len(held)
        for place in places:
            machine = next(g.machine for g in spec.groups if g.role == place.role)
            assert len(place.devices) == machine.accelerators
            assert set(place.devices) <= set(before[place.node])
            assert not place.devices or nodes[place.node].accelerator == machine.accelerator
        assert len({nodes[p.node].zone for p in places if p.devices}) <= 1
        for name in nodes:
            assert sorted(_free_devices(free, name)) == sorted(
                set(before[name]) - {d for node, d in held if node == name}
            )

    def test_the_same_question_has_the_same_answer(self) -> None:
        nodes = [a_node(f"n{n}", 4) for n in range(5)]
        answers = {self.make().place("p/j", a_spec(gpus=2, workers=3), Free(nodes)) for _ in range(5)}
        assert len(answers) == 1

    def test_asking_teaches_nothing(self) -> None:
        nodes = [a_node(f"n{n}", 4) for n in range(5)]
        asked, fresh, spec = self.make(), self.make(), a_spec(gpus=2, workers=3)
        for placer in (asked, fresh):
            for gpus in range(100):
                placer.learns(a_spec(gpus=gpus % 5))
        for _ in range(100):
            asked.place("p/other", a_spec(gpus=1), Free(nodes))
        assert asked.place("p/j", spec, Free(nodes)) == fresh.place("p/j", spec, Free(nodes))

    def test_what_fits_exactly_is_placed(self) -> None:
        nodes = [a_node(f"n{n}", 4) for n in range(3)]
        assert self.make().place("p/j", a_spec(gpus=4, workers=2), Free(nodes)) is not None

    def test_a_job_without_accelerators_needs_none(self) -> None:
        assert self.make().place("p/j", a_spec(workers=2), Free([a_node("n")])) is not None

    @pytest.mark.parametrize("pool", ["", "other"])
    def test_pools_are_kept_apart(self, pool: str) -> None:
        free = Free([a_node("n", 4, pool=pool)])
        assert (self.make().place("p/j", a_spec(gpus=1), free) is not None) == (pool == "")


def _free_devices(free: Free, node: str) -> list[str]:
    """The devices of a node that nobody holds."""
    n = free.index[node]
    return [name for name, milli in zip(free.nodes[n].devices, free.devices[n], strict=False) if milli == 1000]
