"""Whether machines are fit for work: one fault a check, each by itself; a healthy machine passes all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, GpuProcess, Reading, Xid
from stoker.gpu.xid_catalogue import XidAction, action_of, words_of
from stoker.insight.health import Check, Seen, Verdict, checks, worst

GIB = float(1 << 30)
HEALTHY: Mapping[str, float] = {
    "recovery_action": 0.0,
    "ecc_uncorrected": 0.0,
    "remap_failure": 0.0,
    "remap_pending": 0.0,
    "temperature_celsius": 40.0,
    "slowdown_celsius": 87.0,
    "pcie_width": 16.0,
    "pcie_width_max": 16.0,
    "memory_used_bytes": 3.0 * 2**20,
}
HOST = {"host_memory_total_bytes": 64 * GIB, "host_memory_used_bytes": 8 * GIB}


def seen(fault: Fault | None = None, values: Mapping[str, float] = HEALTHY, **more: Any) -> Seen:
    device = Device(index=0, uuid="GPU-0", product="H100", memory_bytes=80 << 30)
    reading = Reading(device=device, values={} if fault else values, fault=fault, problem="so it says" if fault else "")
    return Seen(**{"devices": ["GPU-0"], "gpus": [reading], "host": HOST, "now": 1e6, **more})


def wrong(found: Seen) -> list[tuple[str, Verdict]]:
    return [(check.name, check.verdict) for check in checks(found) if check.verdict is not Verdict.PASS]


def test_a_healthy_machine_passes_all() -> None:
    found = checks(seen())
    assert worst(found) is Verdict.PASS and len(found) == 9 and not any(check.action for check in found)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"recovery_action": 2.0}, ("recovery", Verdict.FAIL)),
        ({"ecc_uncorrected": 1.0}, ("ecc", Verdict.FAIL)),
        ({"remap_failure": 1.0}, ("remapped rows", Verdict.FAIL)),
        ({"remap_pending": 1.0}, ("remapped rows", Verdict.WARN)),
        ({"temperature_celsius": 90.0}, ("temperature", Verdict.WARN)),
        ({"pcie_width": 8.0}, ("pcie", Verdict.WARN)),
        ({"memory_used_bytes": 2 * GIB}, ("free", Verdict.WARN)),
    ],
)
def test_one_thing_that_is_wrong(values: Mapping[str, float], expected: tuple[str, Verdict]) -> None:
    found = seen(values={**HEALTHY, **values})
    assert wrong(found) == [expected]
    assert all(check.action for check in checks(found) if check.verdict is not Verdict.PASS)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_gpu_that_cannot_be_read_is_not_fit(fault: Fault) -> None:
    (check,) = [check for check in checks(seen(fault)) if check.gpu]
    assert check.verdict is Verdict.FAIL and check.text == f"{fault}: so it says" and check.action


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (13, None),
        (31, None),
        (43, None),
        (63, Verdict.WARN),
        (48, Verdict.FAIL),
        (79, Verdict.FAIL),
        (999, Verdict.WARN),
    ],
)
def test_xids_of_programs_are_not_the_machine_s(code: int, verdict: Verdict | None) -> None:
    found = wrong(seen(xids=[Xid(uuid="GPU-0", code=code, at=1e6 - 60)]))
    assert found == ([] if verdict is None else [("xid", verdict)])
    assert wrong(seen(xids=[Xid(uuid="GPU-0", code=code, at=1e6 - 2 * 86400)])) == [], "of long ago"
    assert wrong(seen(xids=[Xid(uuid="GPU-1", code=code, at=1e6)])) == [], "of another"


def test_strangers_are_those_on_a_gpu_that_no_job_holds() -> None:
    process = GpuProcess(uuid="GPU-0", pid=77)
    (check,) = [check for check in checks(seen(processes=[process])) if check.verdict is Verdict.WARN]
    assert check.name == "free" and "by process 77" in check.text
    assert wrong(seen(processes=[process], held={"GPU-0"})) == []


def test_one_that_is_gone_and_a_machine_of_which_nothing_is_known() -> None:
    assert wrong(seen(devices=["GPU-0", "GPU-9"])) == [("present", Verdict.FAIL)]
    assert wrong(Seen(devices=["GPU-0"], gpus=[])) == [("sampled", Verdict.WARN)]


def test_a_machine_without_memory() -> None:
    assert wrong(seen(host={"host_memory_total_bytes": 8 * GIB, "host_memory_used_bytes": 7.9 * GIB})) == [
        ("memory", Verdict.WARN)
    ]


def test_what_a_card_does_not_tell_is_not_checked() -> None:
    assert [check.name for check in checks(seen(values={}))] == ["memory", "driver", "xid", "free"]
    assert worst([]) is Verdict.PASS
    assert worst([Check(name="x", verdict=Verdict.WARN, text="")]) is Verdict.WARN


def test_the_catalogue_has_one_action_for_each_number() -> None:
    assert action_of(13) is XidAction.RESTART_PROGRAM and action_of(43) is XidAction.NOTHING
    assert action_of(79) is XidAction.RESTART_MACHINE and action_of(109) is XidAction.RESET_GPU
    assert action_of(2) is XidAction.UNKNOWN and words_of(79) and not words_of(2)
