"""Rules over GPUs: one scripted trace a rule, each also shifted by a fifth; healthy traces give none; what is not told, none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from stoker.insight.findings.evidence import Confidence, Evidence, Finding, GpuUse
from stoker.insight.findings.rules import findings
from stoker.insight.training_steps import Progress, Window
from stoker.sampling.series import Points

GIB = float(1 << 30)
Trace = Mapping[str, "float | Sequence[float]"]

HEALTHY: Trace = {
    "utilization_percent": 98.0,
    "sm_active_ratio": 0.72,
    "tensor_active_ratio": 0.4,
    "dram_active_ratio": 0.45,
    "graphics_active_ratio": 0.97,
    "memory_used_bytes": 60 * GIB,
    "memory_total_bytes": 80 * GIB,
    "power_watts": 600.0,
    "power_limit_watts": 700.0,
    "temperature_celsius": 66.0,
    "sm_clock_mhz": 1900.0,
    "sm_clock_max_mhz": 1980.0,
    "throttle_reasons": 4.0,
    "pcie_received_bytes_per_second": 2e8,
}


def gpu(trace: Trace, seconds: float = 1.0, count: int = 300, **more: object) -> GpuUse:
    """A GPU that showed this: a number all the time, or a pattern again and again."""
    table = np.full((len(trace), count, 4), np.nan, np.float32)
    for row, values in enumerate(trace.values()):
        pattern = [values] if isinstance(values, float) else list(values)
        table[row] = np.resize(np.array(pattern), count)[:, None]
    given = {"replica": "chief-0", "node": "n", "uuid": "GPU-0", "product": "NVIDIA H100", "is_shared": False, **more}
    return GpuUse(points=Points(0.0, seconds, tuple(trace), table), **given)  # type: ignore[arg-type]


def steps(waited: float | None = 0.02, batch: int = 256, together: float | None = None) -> Progress:
    """Steps of a tenth of a second, of which this part waits for data."""
    share = None if waited is None else waited * 100.0
    first = Window(at=1.0, step=1, steps=1, seconds=5.0, longest=5.0, examples=batch, waited=share, together=None)
    rest = Window(
        at=101.0, step=1001, steps=1000, seconds=100.0, longest=0.2, examples=1000 * batch, waited=share,
        together=None if together is None else together * 100.0,
    )  # fmt: skip
    return Progress(replica="chief-0", windows=[first, rest], framework="torch")


def said(
    trace: Trace, training: Sequence[Progress] = (), *, ran_seconds: float = 3600.0, **more: object
) -> list[Finding]:
    return findings(Evidence(training=training, gpus=[gpu(trace, **more)], ran_seconds=ran_seconds))  # type: ignore[arg-type]


NOTHING_RUNS: Trace = {
    **HEALTHY,
    **dict.fromkeys(("sm_active_ratio", "tensor_active_ratio", "graphics_active_ratio"), 0.0),
}

CASES: Sequence[tuple[str, Trace]] = (
    ("GPU_UNUSED", {**NOTHING_RUNS, "utilization_percent": 0.0, "memory_used_bytes": 2.0 * 2**20}),
    ("GPU_IDLE", {**NOTHING_RUNS, "utilization_percent": [0.0, 2.0, 3.0]}),
    ("TOO_HOT", {**HEALTHY, "throttle_reasons": [4.0, 0x20 * 1.0, 0x40 * 1.0], "sm_clock_mhz": 1100.0}),
    ("POWER_SUPPLY", {**HEALTHY, "throttle_reasons": [4.0] * 99 + [0x80 * 1.0]}),
    (
        "HOST_TO_DEVICE",
        {**HEALTHY, "pcie_received_bytes_per_second": 9e9, "sm_active_ratio": 0.15, "graphics_active_ratio": 0.3},
    ),
    ("LAUNCH_BOUND", {**HEALTHY, "graphics_active_ratio": 0.9, "sm_active_ratio": 0.1}),
    ("LAUNCH_BOUND", {**HEALTHY, "graphics_active_ratio": 0.3, "sm_active_ratio": 0.38, "power_watts": 200.0}),
    ("SMALL_BATCH", {**HEALTHY, "sm_active_ratio": 0.36, "memory_used_bytes": 9.0 * GIB, "dram_active_ratio": 0.2}),
    ("NO_TENSOR_CORES", {**HEALTHY, "sm_active_ratio": 0.68, "tensor_active_ratio": 0.02}),
    ("BANDWIDTH_BOUND", {**HEALTHY, "sm_active_ratio": 0.35, "dram_active_ratio": 0.8}),
    ("SATURATED", {**HEALTHY, "sm_active_ratio": 0.97}),
)
FIXED = ("_limit_", "_max_", "_total_", "throttle_", "_celsius", "utilization")
"""They are what they are: bits, limits and percentages are not shifted."""


def shifted(trace: Trace, factor: float) -> Trace:
    """The same trace, all that is measured a fifth larger or smaller."""
    return {
        name: values if any(word in name for word in FIXED) or not isinstance(values, float) else values * factor
        for name, values in trace.items()
    }


@pytest.mark.parametrize(("code", "trace"), CASES)
def test_each_rule_finds_its_trace_and_no_other_does(code: str, trace: Trace) -> None:
    assert [finding.code for finding in said(trace, [steps()])] == [code]


# The traces whose numbers lie so near to a healthy one that a fifth more is one are not shifted up.
UP = [case for case in CASES if case[0] not in ("SATURATED", "TOO_HOT")]


@pytest.mark.parametrize(("code", "trace"), UP)
@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_fifth_more_or_less_changes_nothing(code: str, trace: Trace, factor: float) -> None:
    assert [finding.code for finding in said(shifted(trace, factor), [steps()])][:1] == [code]


def test_a_healthy_gpu_has_no_findings() -> None:
    assert said(HEALTHY, [steps()]) == []
    assert said(HEALTHY) == []
    assert [finding.code for finding in said(HEALTHY, [steps(0.4)])] == ["INPUT_BOUND"], "its steps say so"


@pytest.mark.parametrize("missing", list(HEALTHY))
def test_what_a_card_does_not_tell_leads_to_no_finding(missing: str) -> None:
    assert said({name: values for name, values in HEALTHY.items() if name != missing}, [steps()]) == []
    only: Trace = {missing: HEALTHY[missing]}
    assert said(only, [steps()]) == [] and said({}, [steps()]) == []


def test_cards_before_hopper_tell_no_activity_and_nothing_is_concluded() -> None:
    old = {name: values for name, values in HEALTHY.items() if not name.endswith("_ratio")}
    assert said({**old, "power_watts": 150.0, "memory_used_bytes": GIB}, [steps()]) == []


def test_without_steps_nothing_is_said_of_batches_or_of_the_bus() -> None:
    for code in ("SMALL_BATCH", "HOST_TO_DEVICE"):
        trace = next(trace for name, trace in CASES if name == code)
        assert code not in [finding.code for finding in said(trace)]
        assert code not in [finding.code for finding in said(trace, [steps(None)])]


def test_busy_and_idle_by_turns_is_waiting_for_data_unless_the_steps_say_otherwise() -> None:
    trace = {**HEALTHY, "utilization_percent": [100.0, 100.0, 5.0, 5.0]}
    (found,) = said(trace)
    assert (found.code, found.confidence) == (
        "INPUT_BOUND",
        Confidence.MEDIUM,
    ) and "above 80 % in 50 %" in found.evidence[0]
    assert said(trace, [steps(0.03)]) == [], "such as an evaluation"
    assert said(trace, seconds=10.0) == [], "points of ten seconds say nothing of it"
    assert said({**HEALTHY, "utilization_percent": 50.0}) == [], "a flat half may be anything"


def test_memory_that_grows_and_memory_that_was_taken_in_advance() -> None:
    grows = [40 * GIB + n * 0.1 * GIB for n in range(300)]
    (found,) = said({**HEALTHY, "memory_used_bytes": grows}, [steps()])
    assert found.code == "MEMORY_RUNS_OUT" and "out of memory in 2 minutes" in found.text
    assert said({**HEALTHY, "memory_used_bytes": 79.0 * GIB}, [steps()]) == []


def test_a_gpu_that_several_share_is_nobody_s_in_particular() -> None:
    for code, trace in CASES:
        found = [finding.code for finding in said(trace, [steps()], is_shared=True)]
        assert found == ([code] if code in ("TOO_HOT", "POWER_SUPPLY") else [])


def test_young_jobs_are_not_accused() -> None:
    unused = CASES[0][1]
    assert "GPU_UNUSED" not in [finding.code for finding in said(unused, ran_seconds=599.0)]
    assert said(CASES[1][1], [steps()], count=100) == []


def test_one_of_several_gpus_that_is_not_used() -> None:
    both = [gpu(HEALTHY), gpu(CASES[0][1], uuid="GPU-1", processes=0)]
    (first, *_) = findings(Evidence(training=[steps()], gpus=both, ran_seconds=3600.0))
    assert (
        first.code == "GPU_UNUSED"
        and "one of 2 that it holds" in first.text
        and "no process on it" in first.evidence[0]
    )


def test_what_is_advised_names_code_and_figures() -> None:
    (batch,) = [f for f in said(dict(CASES)["SMALL_BATCH"], [steps(batch=32)]) if f.code == "SMALL_BATCH"]
    assert "batch 8 times as large should fit" in batch.action and "batch_size=256" in batch.change
    (full,) = findings(Evidence(training=[steps(together=0.2)], gpus=[gpu(dict(CASES)["SATURATED"])]))
    assert full.is_good and "1.6 times as quick with twice as many" in full.text


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "diagnose.md").read_text(encoding="utf-8")
    known = {code for code, _ in CASES} | {
        "INPUT_BOUND",
        "WAITS_FOR_DATA",
        "STRAGGLER",
        "NOT_A_NUMBER",
        "HANGS",
        "TINY_STEPS",
    }
    known |= {"COMMUNICATION_BOUND", "SAVES_TOO_OFTEN", "MEMORY_RUNS_OUT"}
    assert not [code for code in known if f"`{code}`" not in page]


def test_numbers_that_are_none_do_no_harm() -> None:
    for _, trace in CASES:
        holed = {name: [values, math.nan] if isinstance(values, float) else values for name, values in trace.items()}
        assert isinstance(said(holed, [steps()]), list)
