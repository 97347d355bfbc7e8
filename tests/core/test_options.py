"""The table of a job's options: its rows are whole, and what they read they can write."""

from __future__ import annotations

import pytest

from stoker.core.options import OPTIONS, Option, options_of, with_options
from stoker.core.spec import Group, JobSpec, Machine, Program, Retry

BARE = JobSpec(program=Program(), groups=(Group(role="chief", count=1, machine=Machine()),))


def value_of(spec: JobSpec, option: Option) -> object:
    """What a spec holds of an option."""
    if option.variable:
        return spec.program.variables.get(option.variable)
    found: object = spec
    for name in option.target.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_leads_to_one_place(option: Option) -> None:
    assert bool(option.target) != bool(option.variable)
    assert option.help.endswith(".") and option.spelling.startswith("--")
    asked = with_options(BARE, {option.name: option.example})
    changed = [o.name for o in OPTIONS if value_of(asked, o) != value_of(BARE, o)]
    assert changed == [option.name]


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.label], ids=lambda option: option.name)
def test_its_label_holds_what_its_flag_was_given(option: Option) -> None:
    assert options_of({option.label: option.kind.write(option.example)}) == ({option.name: option.example}, {})


def test_what_is_not_asked_for_leaves_the_spec_as_it_is() -> None:
    assert with_options(BARE, {}) == with_options(BARE, {option.name: option.default for option in OPTIONS}) == BARE


@pytest.mark.parametrize("nothing", ["", "none"])
def test_none_sets_no_variable(nothing: str) -> None:
    asked = with_options(BARE, dict.fromkeys(("distribute", "learning_rate_rule", "checkpoints"), nothing))
    assert not asked.program.variables


def test_what_is_asked_for_by_labels() -> None:
    labels = {"team": "a", "stoker-queue": "", "stoker-max-retries": "0", "stoker-checkpoints": "10m"}
    found, problems = options_of(labels)
    assert found == {"max_retries": 0, "checkpoints": "600"} and not problems
    asked = with_options(BARE, found)
    assert asked.retry == Retry.counted(0) and asked.program.variables == {"STOKER_CHECKPOINTS": "600"}


@pytest.mark.parametrize(
    ("label", "text", "problem"),
    [
        ("stoker-preemptible", "yes", "'yes' is neither true nor false"),
        ("stoker-resumable", "", "'' is neither true nor false"),
        ("stoker-precision", "int8", "'int8' is none of fp32, bf16, fp16"),
        ("stoker-distribute", "", "'' is none of none, auto, mirrored, multiworker, ps, ddp, fsdp, jax"),
        ("stoker-max-retries", "1001", "'1001' is not a number from 0 to 1000"),
        ("stoker-max-retries", "9" * 5000, f"'{'9' * 80}' is not a number from 0 to 1000"),
        ("stoker-max-retries", "²", "'²' is not a number from 0 to 1000"),
        ("stoker-hold-on-failure", "8d", "'8d' is too long: at most 7d"),
        ("stoker-hang-timeout", "soon", "'soon' is not a duration: write 90s, 30m, 1h or 2d"),
    ],
)
def test_what_is_wrong_with_a_label(label: str, text: str, problem: str) -> None:
    assert options_of({label: text}) == ({}, {label: problem})
