"""NVIDIA's GPUs, read by the real nvidia-ml-py from a stand-in for the driver's library."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.gpu.metrics import BY_NAME
from stoker.gpu.reading import Fault, GpuProcess, Reader
from tests.conftest import wait_until

from .nvml_library import LOST, MISMATCH, MISSING, NOT_SUPPORTED, TIMEOUT, Gpu, Library, playing


@pytest.fixture
def library() -> Iterator[Library]:
    """Two GPUs, the second without GPM."""
    with playing(Gpu(), Gpu(uuid="GPU-1", gpm=None, busy=3)) as found:
        yield found


@pytest.fixture
def reader(library: Library) -> Iterator[Reader]:
    made = NvmlDriver().reader()
    assert made is not None
    yield made
    made.close()
    assert library.open_samples == 0, "what was allocated is freed"


def test_a_card_tells_all_that_it_has(reader: Reader) -> None:
    first, second = reader.read(slow=True)
    assert first.fault is None and set(first.values) <= set(BY_NAME)
    assert set(BY_NAME) - set(first.values) == set()
    values = first.values
    assert (values["utilization_percent"], values["memory_access_percent"]) == (90, 45)
    assert (values["memory_used_bytes"], values["memory_reserved_bytes"]) == (20 << 30, 500 << 20)
    assert (values["power_watts"], values["power_limit_watts"], values["energy_joules"]) == (500, 700, 1000)
    assert (values["slowdown_celsius"], values["shutdown_celsius"]) == (87, 92)
    assert (values["pcie_sent_bytes"], values["nvlink_received_bytes"]) == (1000, 6 * 1024)
    assert (values["sm_active_ratio"], values["tensor_active_ratio"], values["dram_active_ratio"]) == (0.8, 0.3, 0.5)
    assert (values["ecc_corrected"], values["ecc_uncorrected"], values["recovery_action"]) == (3, 0, 0)
    assert "sm_active_ratio" not in second.values, "nothing is made up where a card has no GPM"


def test_what_changes_seldom_is_asked_for_seldom_and_shown_all_the_time(reader: Reader, library: Library) -> None:
    assert "power_limit_watts" not in reader.read(slow=False)[0].values
    reader.read(slow=True)
    asked = library.calls["nvmlDeviceGetEnforcedPowerLimit"]
    assert reader.read(slow=False)[0].values["power_limit_watts"] == 700
    assert library.calls["nvmlDeviceGetEnforcedPowerLimit"] == asked


def test_what_a_card_does_not_support_is_left_out_and_not_asked_for_again(library: Library) -> None:
    library.gpus[0].faults = {"nvmlDeviceGetPowerUsage": NOT_SUPPORTED}
    library.faults = {"nvmlDeviceGetRemappedRows": MISSING, "nvmlDeviceGetCurrentClocksEventReasons": MISSING}
    reader = NvmlDriver().reader()
    assert reader is not None
    for _ in range(3):
        first, second = reader.read(slow=True)
    assert "power_watts" not in first.values and second.values["power_watts"] == 500
    assert "remap_failure" not in first.values and first.values["throttle_reasons"] == 0, "by its older name"
    assert library.calls["nvmlDeviceGetPowerUsage"] == 1 + 3
    reader.close()


def test_what_fails_by_chance_is_missing_once(reader: Reader, library: Library) -> None:
    library.gpus[0].faults = {"nvmlDeviceGetTemperature": TIMEOUT}
    first = reader.read(slow=False)[0]
    assert "temperature_celsius" not in first.values and first.fault is None and first.values["sm_clock_mhz"] == 1980
    library.gpus[0].faults = {}
    assert reader.read(slow=False)[0].values["temperature_celsius"] == 60


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (LOST, Fault.LOST),
        (pynvml.NVML_ERROR_RESET_REQUIRED, Fault.RESET_REQUIRED),
        (MISMATCH, Fault.DRIVER_CHANGED),
    ],
)
def test_a_card_that_is_lost_keeps_nobody_from_the_others(
    reader: Reader, library: Library, error: int, fault: Fault
) -> None:
    library.gpus[0].faults = {"nvmlDeviceGetPowerUsage": error}
    first, second = reader.read(slow=False)
    assert (first.fault, second.fault) == (fault, None) and first.problem
    assert second.values["power_watts"] == 500
    library.gpus[0].faults = {}
    assert reader.read(slow=False)[0].fault is None, "and back it is"


def test_values_that_the_driver_marks_as_unknown_are_not_numbers(reader: Reader, library: Library) -> None:
    library.gpus[0].fields = {82: 0xFFFFFFFF, 197: 0xFFFFFFFFFFFFFFFF, 198: 4}
    library.gpus[0].gpm = {2: float("nan"), 5: 10.0}
    values = reader.read(slow=False)[0].values
    assert values["pcie_received_bytes"] == 4 and values["tensor_active_ratio"] == 0.1
    assert not {"memory_temperature_celsius", "pcie_sent_bytes", "sm_active_ratio"} & set(values)


def test_who_computes_on_it(reader: Reader, library: Library) -> None:
    unknown = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
    library.gpus[1].processes = {7: (1 << 30, 60), 8: (unknown, 20)}
    assert reader.processes() == [
        GpuProcess(uuid="GPU-1", pid=7, memory_bytes=float(1 << 30), sm_percent=60.0),
        GpuProcess(uuid="GPU-1", pid=8, memory_bytes=None, sm_percent=20.0),
    ]


def test_errors_of_cards_are_heard_when_they_happen(reader: Reader, library: Library) -> None:
    library.tell_xid(1, 79)
    (xid,) = wait_until(reader.errors, 10)
    assert (xid.uuid, xid.code) == ("GPU-1", 79) and not reader.errors()
    assert [one.values["xid"] for one in reader.read(slow=False)] == [0, 79]


def test_a_card_in_parts_is_read_part_by_part() -> None:
    parts = [Gpu(uuid="MIG-1", name="NVIDIA H100 MIG 1g.10gb", memory=10 << 30, used=1 << 30, gpm={2: 20.0})]
    with playing(Gpu(parts=parts)):
        reader = NvmlDriver().reader()
        assert reader is not None
        whole, part = reader.read(slow=True)
        assert (part.device.uuid, part.device.mig_profile, part.device.mig_id) == ("MIG-1", "1g.10gb", 1)
        assert part.values["memory_used_bytes"] == 1 << 30 and "utilization_percent" not in part.values
        assert (whole.values["sm_active_ratio"], part.values["sm_active_ratio"]) == (0.8, 0.2)
        parts[0].processes = {5: (1 << 20, 0)}
        assert [(found.uuid, found.pid) for found in reader.processes()] == [("MIG-1", 5)]
        parts.clear()
        assert len(reader.read(slow=True)) == 1, "they may be made anew at any time"
        reader.close()


@pytest.mark.parametrize(
    "begins", [pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, 999]
)
def test_without_a_driver_there_is_nothing_to_read(begins: int) -> None:
    with playing(Gpu(), begins=begins):
        assert NvmlDriver().reader() is None and not NvmlDriver().devices()
    with playing():
        assert NvmlDriver().reader() is None
