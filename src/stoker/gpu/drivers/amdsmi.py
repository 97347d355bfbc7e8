"""AMD's management library, in-process, where its package `amdsmi` is installed. Source: amdsmi 7.0, `amdsmi_interface.py`.

Values may be the text "N/A", and many calls fail in virtual machines: each of them by itself. `vram_*` are in MiB, power is in
watts (its cap in microwatts), clocks are in MHz.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, GpuProcess, Reader, Reading, Xid

_log = logging.getLogger("stoker.gpu")

_MIB = 1 << 20
_MICRO = 1e-6

Values = dict[str, float]
Call = Callable[[Any, Any], Mapping[str, object]]  # the library and a handle → what it tells, by our names


def _activity(a: Any, handle: Any) -> Mapping[str, object]:
    found = a.amdsmi_get_gpu_activity(handle)
    return {"utilization_percent": found["gfx_activity"], "memory_access_percent": found["umc_activity"]}


def _memory(a: Any, handle: Any) -> Mapping[str, object]:
    found = a.amdsmi_get_gpu_vram_usage(handle)
    total, used = found["vram_total"] * _MIB, found["vram_used"] * _MIB
    return {"memory_used_bytes": used, "memory_free_bytes": total - used, "memory_total_bytes": total}


def _power(a: Any, handle: Any) -> Mapping[str, object]:
    """Cards tell either what they draw now, or what they have drawn of late."""
    found = a.amdsmi_get_power_info(handle)
    names = ("current_socket_power", "average_socket_power", "socket_power")
    return {"power_watts": next((found[name] for name in names if _is_number(found.get(name))), "N/A")}


def _energy(a: Any, handle: Any) -> Mapping[str, object]:
    found = a.amdsmi_get_energy_count(handle)
    return {"energy_joules": found["energy_accumulator"] * found["counter_resolution"] * _MICRO}


def _temperature(kind: str, name: str) -> Call:
    def read(a: Any, handle: Any) -> Mapping[str, object]:
        sensor = getattr(a.AmdSmiTemperatureType, kind)
        return {name: a.amdsmi_get_temp_metric(handle, sensor, a.AmdSmiTemperatureMetric.CURRENT)}

    return read


def _limits(a: Any, handle: Any) -> Mapping[str, object]:
    sensor, metric = a.AmdSmiTemperatureType.HOTSPOT, a.AmdSmiTemperatureMetric
    return {
        "slowdown_celsius": a.amdsmi_get_temp_metric(handle, sensor, metric.CRITICAL),
        "shutdown_celsius": a.amdsmi_get_temp_metric(handle, sensor, metric.EMERGENCY),
    }


def _clock(kind: str, name: str, most: str = "") -> Call:
    def read(a: Any, handle: Any) -> Mapping[str, object]:
        found = a.amdsmi_get_clock_info(handle, getattr(a.AmdSmiClkType, kind))
        return {name: found["clk"], **({most: found["max_clk"]} if most else {})}

    return read


def _ecc(a: Any, handle: Any) -> Mapping[str, object]:
    found = a.amdsmi_get_gpu_total_ecc_count(handle)
    return {"ecc_corrected": found["correctable_count"], "ecc_uncorrected": found["uncorrectable_count"]}


def _cap(a: Any, handle: Any) -> Mapping[str, object]:
    return {"power_limit_watts": a.amdsmi_get_power_cap_info(handle)["power_cap"] * _MICRO}


FAST: Sequence[Call] = (
    _activity,
    _memory,
    _power,
    _energy,
    _temperature("HOTSPOT", "temperature_celsius"),
    _temperature("VRAM", "memory_temperature_celsius"),
    _clock("GFX", "sm_clock_mhz", "sm_clock_max_mhz"),
    _clock("MEM", "memory_clock_mhz"),
)
SLOW: Sequence[Call] = (_ecc, _cap, _limits)


class AmdSmiDriver:
    """Implements Driver."""

    def __init__(self, library: Any = None) -> None:
        """`library`: in place of the package, for tests."""
        self._library = library

    def devices(self) -> Sequence[Device]:
        """The AMD GPUs of this machine; none where there is no driver, or the package is not installed."""
        library = self._begun()
        if library is None:
            return []
        found = list(_found(library))
        library.amdsmi_shut_down()
        return found

    def reader(self) -> Reader | None:
        """Hold them open; None where there are none."""
        library = self._begun()
        if library is None:
            return None
        found = _found(library)
        if not found:
            library.amdsmi_shut_down()
            return None
        return AmdSmiReader(library, found)

    def _begun(self) -> Any:
        """The library, initialised; None where there is none that answers."""
        try:
            library = self._library or import_module("amdsmi")
            library.amdsmi_init()
        except Exception as error:  # of whatever kind: its import alone fails in a dozen ways where there is no driver
            _log.debug("no AMD driver answers: %s", error)
            return None
        return library


def _found(library: Any) -> dict[Device, Any]:
    found: dict[Device, Any] = {}
    for index, handle in enumerate(library.amdsmi_get_processor_handles()):
        try:
            device = Device(
                index=index,
                uuid=f"GPU-{library.amdsmi_get_gpu_device_uuid(handle)}",
                product=str(library.amdsmi_get_gpu_asic_info(handle)["market_name"]),
                memory_bytes=int(library.amdsmi_get_gpu_vram_usage(handle)["vram_total"]) * _MIB,
                pci_bus_id=str(library.amdsmi_get_gpu_device_bdf(handle)),
            )
        except library.AmdSmiException as error:
            _log.warning("AMD GPU %d cannot be read and is left out: %s", index, error)
            continue
        found[device] = handle
    return found


class AmdSmiReader:
    """Implements Reader. The library has been initialised for it."""

    def __init__(self, library: Any, devices: Mapping[Device, Any]) -> None:
        self._library = library
        self._devices = dict(devices)
        self._slow: dict[Device, Values] = {device: {} for device in devices}

    def read(self, *, slow: bool) -> Sequence[Reading]:
        """Each GPU now. One of which nothing can be read is in a fault."""
        return [self._reading(device, handle, slow) for device, handle in self._devices.items()]

    def processes(self) -> Sequence[GpuProcess]:
        """Who uses them."""
        found = []
        for device, handle in self._devices.items():
            told = self._asked(partial(self._library.amdsmi_get_gpu_process_list, handle)) or []
            for process in told:
                memory = process["memory_usage"]["vram_mem"]
                known = float(memory) if _is_number(memory) else None
                found.append(GpuProcess(uuid=device.uuid, pid=int(process["pid"]), memory_bytes=known))
        return found

    def errors(self) -> Sequence[Xid]:
        """None: Xids are NVIDIA's."""
        return []

    def close(self) -> None:
        """Let go of the library."""
        self._asked(self._library.amdsmi_shut_down)

    def _reading(self, device: Device, handle: Any, slow: bool) -> Reading:
        values = self._values(FAST, handle)
        if not values:
            return Reading(device=device, fault=Fault.UNREADABLE, problem="the driver tells nothing of it")
        if slow:
            self._slow[device] = self._values(SLOW, handle)
        return Reading(device=device, values={**values, **self._slow[device]})

    def _values(self, calls: Sequence[Call], handle: Any) -> Values:
        values: Values = {}
        for call in calls:
            told = self._asked(partial(call, self._library, handle)) or {}
            values |= {name: float(value) for name, value in told.items() if _is_number(value)}
        return values

    def _asked(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._library.AmdSmiException, KeyError, TypeError, AttributeError):  # "N/A" where a number was
            return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
