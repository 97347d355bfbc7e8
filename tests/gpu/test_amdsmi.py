"""AMD's GPUs, read from a stand-in for the package `amdsmi`: its functions, by the form of their answers in version 7.0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.gpu.drivers.amdsmi import AmdSmiDriver
from stoker.gpu.metrics import BY_NAME
from stoker.gpu.reading import Fault, GpuProcess


class AmdSmiException(Exception):
    """As in the package."""


def a_library(**other: Any) -> Any:
    """Two MI300X, the second in a virtual machine that tells little."""
    broken: set[int] = set()

    def of_first(value: Any) -> Any:
        def asked(handle: int, *_: Any) -> Any:
            if handle in broken or (handle == 1 and value == "fails"):
                raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED")
            return value[handle] if isinstance(value, list) else value

        return asked

    temperatures = {("HOTSPOT", "CURRENT"): 61, ("VRAM", "CURRENT"): 55}
    temperatures |= {("HOTSPOT", "CRITICAL"): 100, ("HOTSPOT", "EMERGENCY"): 105}
    made = SimpleNamespace(
        AmdSmiException=AmdSmiException,
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT="HOTSPOT", VRAM="VRAM"),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT="CURRENT", CRITICAL="CRITICAL", EMERGENCY="EMERGENCY"),
        AmdSmiClkType=SimpleNamespace(GFX="GFX", MEM="MEM"),
        broken=broken,
        begun=0,
        amdsmi_get_processor_handles=lambda: [0, 1],
        amdsmi_get_gpu_device_uuid=of_first(["a5ff-1", "a5ff-2"]),
        amdsmi_get_gpu_asic_info=of_first({"market_name": "AMD Instinct MI300X"}),
        amdsmi_get_gpu_device_bdf=of_first(["0000:05:00.0", "0000:06:00.0"]),
        amdsmi_get_gpu_vram_usage=of_first({"vram_total": 196592, "vram_used": 1000}),
        amdsmi_get_gpu_activity=of_first(
            [{"gfx_activity": 88, "umc_activity": 40}, {"gfx_activity": "N/A", "umc_activity": "N/A"}]
        ),
        amdsmi_get_power_info=of_first(
            [{"current_socket_power": "N/A", "average_socket_power": 600}, {"current_socket_power": 120}]
        ),
        amdsmi_get_energy_count=of_first({"energy_accumulator": 1_000_000, "counter_resolution": 15.3}),
        amdsmi_get_temp_metric=lambda handle, sensor, metric: temperatures[sensor, metric],
        amdsmi_get_clock_info=of_first({"clk": 2100, "max_clk": 2100}),
        amdsmi_get_gpu_total_ecc_count=of_first({"correctable_count": 2, "uncorrectable_count": 0}),
        amdsmi_get_power_cap_info=of_first({"power_cap": 750_000_000}),
        amdsmi_get_gpu_process_list=lambda handle: (
            [{"pid": 7, "memory_usage": {"vram_mem": 1024}}] if not handle else []
        ),
    )

    def begin() -> None:
        made.begun += 1

    def end() -> None:
        made.begun -= 1

    made.amdsmi_init, made.amdsmi_shut_down = begin, end
    for name, value in other.items():
        setattr(made, name, value)
    return made


def test_a_card_tells_by_our_names_and_units() -> None:
    library = a_library()
    reader = AmdSmiDriver(library).reader()
    assert reader is not None
    first, second = reader.read(slow=True)
    assert set(first.values) <= set(BY_NAME) and first.device.product == "AMD Instinct MI300X"
    values = first.values
    assert (values["utilization_percent"], values["memory_access_percent"]) == (88, 40)
    assert values["memory_used_bytes"] == 1000 << 20 and values["memory_total_bytes"] == 196592 << 20
    assert (values["power_watts"], values["power_limit_watts"], round(values["energy_joules"], 6)) == (600, 750, 15.3)
    assert (values["temperature_celsius"], values["slowdown_celsius"], values["shutdown_celsius"]) == (61, 100, 105)
    assert "utilization_percent" not in second.values and second.values["power_watts"] == 120
    assert reader.processes() == [GpuProcess(uuid="GPU-a5ff-1", pid=7, memory_bytes=1024.0)] and not reader.errors()
    assert reader.read(slow=False)[0].values["ecc_corrected"] == 2, "what changes seldom stays"
    reader.close()
    assert library.begun == 0


def test_calls_fail_alone_and_a_card_of_which_nothing_is_told_is_in_a_fault() -> None:
    def refuses(*_: Any) -> Any:
        raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED")

    library = a_library(amdsmi_get_temp_metric=refuses, amdsmi_get_energy_count=lambda _: {"energy_accumulator": "N/A"})
    reader = AmdSmiDriver(library).reader()
    assert reader is not None
    first = reader.read(slow=True)[0]
    assert first.fault is None and not {"temperature_celsius", "energy_joules"} & set(first.values)
    for name in [name for name in vars(library) if name.startswith("amdsmi_get_")]:
        setattr(library, name, refuses)
    assert [found.fault for found in reader.read(slow=False)] == [Fault.UNREADABLE, Fault.UNREADABLE]
    assert not reader.processes()


def test_a_card_that_cannot_be_named_is_left_out() -> None:
    library = a_library()
    library.broken.add(1)
    assert [device.pci_bus_id for device in AmdSmiDriver(library).devices()] == ["0000:05:00.0"] and library.begun == 0


@pytest.mark.parametrize(
    "error", [AmdSmiException("no driver"), OSError("libamd_smi.so: cannot open"), KeyError("HOME")]
)
def test_without_a_driver_there_is_nothing(error: Exception) -> None:
    def fails() -> None:
        raise error

    driver = AmdSmiDriver(a_library(amdsmi_init=fails))
    assert driver.reader() is None and not driver.devices()


def test_without_the_package_there_is_nothing() -> None:
    assert AmdSmiDriver().reader() is None and not AmdSmiDriver().devices()


def test_without_cards_there_is_nothing_to_read() -> None:
    library = a_library(amdsmi_get_processor_handles=list)
    assert AmdSmiDriver(library).reader() is None and library.begun == 0
