"""Scores that are kept between placements are as if worked out anew, and nothing that fits is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stoker.core.job import Attempt, Placement
from stoker.core.spec import JobSpec
from stoker.registry import load
from stoker.scheduling.base import Placer
from stoker.scheduling.free import Free
from tests.builders import a_node, a_spec

TYPES = ("T4", "V100", "A100")


def a_random_spec(random: np.random.Generator) -> JobSpec:
    """A job of one or two replicas that may share a GPU, or want several, of some types or any."""
    milli = int(random.choice([0, 77, 250, 460, 540, 999, 1000, 2000, 4000, 8000]))
    types = ["ANY", *TYPES, "T4|V100"]
    spec = a_spec(vcpus=float(random.choice([0.5, 2, 8, 12])), workers=int(random.integers(0, 2)))
    machine = replace(
        spec.groups[0].machine,
        accelerator=types[int(random.integers(len(types)))] if milli else "",
        accelerator_milli=milli,
        memory_gb=float(random.choice([0, 4, 16, 64])),
    )
    return replace(spec, groups=tuple(replace(group, machine=machine) for group in spec.groups))


def random_nodes(random: np.random.Generator) -> Free:
    """Some nodes of some sizes and types; one of them soft."""
    return Free(
        a_node(
            f"n{n:02d}",
            int(random.integers(0, 9)),
            accelerator=TYPES[int(random.integers(3))],
            vcpus=float(random.choice([16, 32, 64])),
            memory_gb=float(random.choice([64, 256])),
            soft=n == 7,
        )
        for n in range(16)
    )


@pytest.mark.parametrize("name", ["fgd", "shadow-price"])
@pytest.mark.parametrize("seed", range(6))
def test_kept_scores_are_as_fresh_ones(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    placer: Placer = load("placers", name)()
    free = random_nodes(random)
    live: list[tuple[JobSpec, Attempt]] = []
    refused = 0
    for number in range(250):
        if live and random.random() < 0.4:
            free.release(*live.pop(int(random.integers(len(live)))))
        spec, job = a_random_spec(random), f"p/j{number}"
        placer.learns(spec)
        mark = free.checkpoint()
        kept = placer.place(job, spec, free)
        free.rollback(mark)
        notes = dict(free.notes)
        free.notes.clear()
        assert placer.place(job, spec, free) == kept
        free.notes.update(notes)
        if kept is None:
            refused += 1
            assert not _fits_somewhere(spec, free)
        elif random.random() < 0.3:
            free.rollback(mark)
        else:
            live.append((spec, _an_attempt(job, kept)))
    assert refused and live


def _fits_somewhere(spec: JobSpec, free: Free) -> bool:
    """Whether a gang of one replica fits, as the arrays say. Larger gangs are not judged here."""
    machine = spec.groups[0].machine
    return spec.replicas == 1 and bool(free.fitting(machine, "p/new", free.candidates(spec, machine)).size)


def _an_attempt(job: str, places: tuple[Placement, ...]) -> Attempt:
    return Attempt(id=f"{job}.1", job=job, number=1, engine="fake", placements=places, placed_at=0.0, replicas=())
