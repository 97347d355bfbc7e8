"""Where it goes when the right choice is known, and when each of its four prices decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from stoker.core.spec import ANY_ACCELERATOR, JobSpec
from stoker.scheduling.free import Free
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.placers.shadow_price import ShadowPrice
from tests.builders import a_node, a_spec


def wants(
    milli: int, gpu: str = ANY_ACCELERATOR, *, vcpus: float = 1, memory_gb: float = 1, workers: int = 0
) -> JobSpec:
    """A job whose replicas each take so much of so many GPUs."""
    spec = a_spec(workers=workers)
    machine = replace(
        spec.groups[0].machine,
        vcpus=vcpus,
        memory_gb=memory_gb,
        accelerator=gpu if milli else "",
        accelerator_milli=milli,
    )
    return replace(spec, groups=tuple(replace(group, machine=machine) for group in spec.groups))


def taught(specs: Iterable[JobSpec], times: int = 50) -> ShadowPrice:
    """A placer that has seen these jobs come, so often."""
    placer, specs = ShadowPrice(), list(specs)
    for _ in range(times):
        for spec in specs:
            placer.learns(spec)
    return placer


def hold(free: Free, node: str, spec: JobSpec) -> None:
    """Let somebody hold this on a node."""
    machine = spec.groups[0].machine
    free.take(free.index[node], "chief", 0, machine, "p/other")


def where(placer: ShadowPrice | BestFit, spec: JobSpec, free: Free) -> list[str]:
    """The nodes of its replicas."""
    places = placer.place("p/j", spec, free)
    assert places is not None
    return [place.node for place in places]


def test_what_makes_a_device_full_is_kept_together() -> None:
    """460 would fit beside 460, and waste what 540 needs."""
    shares = [wants(460), wants(540)]
    for placer, node in ((taught(shares), "n1"), (BestFit(), "n0")):
        free = Free([a_node("n0", 1), a_node("n1", 1)])
        hold(free, "n0", wants(460))
        assert where(placer, wants(460), free) == [node]


def test_the_device_within_a_node_is_chosen_alike() -> None:
    free = Free([a_node("n0", 2)])
    free.take_devices(0, (0,), "chief", 0, wants(460).groups[0].machine, "p/other")
    places = taught([wants(460), wants(540)]).place("p/j", wants(460), free)
    assert places is not None and places[0].devices == ("1",)


def test_the_other_half_finds_it() -> None:
    free = Free([a_node("n0", 1), a_node("n1", 1)])
    hold(free, "n1", wants(460))
    assert where(taught([wants(460), wants(540)]), wants(540), free) == ["n1"]


def test_jobs_without_gpus_keep_off_the_vcpus_that_gpus_need() -> None:
    free = Free([a_node("n0", 8), a_node("n1", 8)])
    hold(free, "n1", wants(8000, vcpus=8))
    placer = taught([wants(1000, vcpus=8), wants(0, vcpus=8)])
    assert where(placer, wants(0, vcpus=48), free) == ["n1"]


def test_jobs_that_need_much_memory_go_where_gpus_have_plenty() -> None:
    placer = taught([wants(1000, memory_gb=16), wants(0, memory_gb=64)])
    free = Free([a_node("n0", 8, memory_gb=128.0), a_node("n1", 8, memory_gb=1024.0)])
    assert where(placer, wants(0, memory_gb=64), free) == ["n1"]


def test_whole_nodes_are_kept_for_who_wants_them() -> None:
    placer = taught([wants(1000), wants(8000)])
    free = Free([a_node("n0", 8), a_node("n1", 8)])
    hold(free, "n1", wants(1000))
    nodes = [where(placer, wants(1000), free)[0] for _ in range(8)]
    assert nodes == ["n1"] * 7 + ["n0"]


def test_who_takes_any_keeps_off_the_type_that_others_need() -> None:
    placer = taught([wants(1000, "T4"), wants(1000)], 1000)
    free = Free([a_node("n0", 1), a_node("n1", 1, accelerator="V100")])
    assert where(placer, wants(1000), free) == ["n1"]
    assert where(placer, wants(1000), free) == ["n0"], "what fits is never refused"


def test_gpus_whose_vcpus_are_gone_are_used_up_first() -> None:
    """What counts is what is lost, not what is left: on n1 hardly anybody else can use a GPU."""
    free = Free([a_node("n0", 4), a_node("n1", 4)])
    hold(free, "n1", wants(0, vcpus=62))
    assert where(taught([wants(1000, vcpus=8)]), wants(1000, vcpus=0.5), free) == ["n1"]


def test_as_many_whole_devices_are_left_as_others_want() -> None:
    free = Free([a_node("n0", 8), a_node("n1", 8)])
    hold(free, "n0", wants(3000))
    hold(free, "n1", wants(2000))
    assert where(taught([wants(4000)]), wants(2000), free) == ["n1"]


def test_of_equals_the_node_that_has_the_gang_is_taken() -> None:
    free = Free([a_node("n0", 4), a_node("n1", 4)])
    free.take(1, "ps", 0, wants(0).groups[0].machine, "p/j")
    assert where(taught([wants(1000)]), wants(1000, workers=5), free) == ["n1"] * 4 + ["n0"] * 2


def test_before_anybody_has_come_it_places_all_the_same() -> None:
    free = Free([a_node("n0", 2), a_node("n1")])
    placer = ShadowPrice()
    assert where(placer, wants(500), free) == ["n0"]
    assert where(placer, wants(0), free) == ["n1"]
    assert placer.place("p/j", wants(3000), free) is None


@pytest.mark.parametrize("nodes", [[], [a_node("n0")]])
def test_a_site_without_gpus_is_a_site(nodes: list[object]) -> None:
    placer = taught([wants(1000), wants(0)])
    assert placer.place("p/j", wants(1000), Free(nodes)) is None  # type: ignore[arg-type]
    assert (placer.place("p/j", wants(0), Free(nodes)) is not None) == bool(nodes)  # type: ignore[arg-type]


def test_the_same_jobs_teach_the_same() -> None:
    specs = [wants(460), wants(540, "T4"), wants(2000, "T4|V100", vcpus=16), wants(0, vcpus=8)]
    answers = []
    for _ in range(2):
        placer, free = taught(specs, 20), Free(a_node(f"n{n}", n % 3) for n in range(9))
        answers.append([placer.place(f"p/{n}", specs[n % 4], free) for n in range(30)])
    assert answers[0] == answers[1]
    assert None in answers[0] and any(answers[0])
