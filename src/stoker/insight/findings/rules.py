"""The rules in their order: what comes first explains what comes after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import of_gpus as gpus
from . import of_steps as steps
from .evidence import Evidence, Finding

Rule = Callable[[Evidence], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    steps.not_numbers,
    gpus.is_not_used,
    steps.hangs,
    gpus.is_idle,
    gpus.is_held_down,
    steps.steps_are_short,
    steps.waits_for_data,
    gpus.starves,
    gpus.waits_for_the_bus,
    steps.is_slow,
    steps.waits_for_others,
    steps.saves_much,
    gpus.kernels_are_small,
    gpus.batch_is_small,
    gpus.has_no_tensor_cores_at_work,
    gpus.is_bound_by_memory,
    gpus.memory_runs_out,
    gpus.is_full,
)


def findings(found: Evidence) -> list[Finding]:
    """All that is to be said, the first one being what to look at first. None of it: nothing is known to be wrong."""
    return [finding for rule in RULES for finding in rule(found)]
