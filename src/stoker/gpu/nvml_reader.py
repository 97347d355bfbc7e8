"""NVIDIA's GPUs held open, to be read every second. Source: NVML's reference, and nvidia-ml-py.

Each call fails alone: what a card does not support is not asked for again, what fails by chance is missing once, and a card that
is lost keeps nobody from the others. PCIe and NVLink are read as counters, for the call that measures their speed takes 20 ms.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, GpuProcess, Reading, Xid

_log = logging.getLogger("stoker.gpu")

_ALL_LINKS = 0xFFFFFFFF
_KIB = 1024.0
_NOT_KNOWN = {0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}
_TYPES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_EVENT_MILLISECONDS = 1000
_MOST_ERRORS = 1000  # that nobody has asked for

_FIELDS: Mapping[Any, tuple[str, float]] = {
    82: ("memory_temperature_celsius", 1.0),
    197: ("pcie_sent_bytes", 1.0),
    198: ("pcie_received_bytes", 1.0),
    (138, _ALL_LINKS): ("nvlink_sent_bytes", _KIB),
    (139, _ALL_LINKS): ("nvlink_received_bytes", _KIB),
}
_SLOW_FIELDS: Mapping[Any, tuple[str, float]] = {230: ("recovery_action", 1.0)}

_GPM = {
    1: "graphics_active_ratio",
    2: "sm_active_ratio",
    3: "sm_occupancy_ratio",
    5: "tensor_active_ratio",
    10: "dram_active_ratio",
}
"""GPM's numbers, which it gives in percent."""

Values = dict[str, float]
Call = Callable[[Any, Any], Values]  # the library and a handle → values


def _utilization(n: Any, handle: Any) -> Values:
    found = n.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization_percent": found.gpu, "memory_access_percent": found.memory}


def _memory(n: Any, handle: Any) -> Values:
    """The second version tells what the driver keeps for itself; the first one counts that as used."""
    try:
        found = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
        kept = {"memory_reserved_bytes": found.reserved}
    except (n.NVMLError_FunctionNotFound, n.NVMLError_NotSupported, n.NVMLError_InvalidArgument, AttributeError):
        found, kept = n.nvmlDeviceGetMemoryInfo(handle), {}
    return {
        "memory_used_bytes": found.used,
        "memory_free_bytes": found.free,
        "memory_total_bytes": found.total,
        **kept,
    }


def _reasons(n: Any, handle: Any) -> Values:
    try:
        return {"throttle_reasons": n.nvmlDeviceGetCurrentClocksEventReasons(handle)}
    except (n.NVMLError_FunctionNotFound, AttributeError):  # as it was called before driver 535
        return {"throttle_reasons": n.nvmlDeviceGetCurrentClocksThrottleReasons(handle)}


def _remapped(n: Any, handle: Any) -> Values:
    names = ("remapped_corrected_rows", "remapped_uncorrected_rows", "remap_pending", "remap_failure")
    return dict(zip(names, n.nvmlDeviceGetRemappedRows(handle), strict=True))


def _one(name: str, call: Callable[[Any, Any], Any], scale: float = 1.0) -> tuple[str, Call]:
    return name, lambda n, handle: {name: call(n, handle) * scale}


def _of_fields(fields: Mapping[Any, tuple[str, float]]) -> Call:
    def read(n: Any, handle: Any) -> Values:
        found = n.nvmlDeviceGetFieldValues(handle, list(fields))
        values = {}
        for one, (name, scale) in zip(found, fields.values(), strict=True):
            if one.nvmlReturn == 0 and one.valueType in _TYPES:
                number = getattr(one.value, _TYPES[one.valueType])
                if number not in _NOT_KNOWN:
                    values[name] = number * scale
        return values

    return read


FAST: Sequence[tuple[str, Call]] = (
    ("utilization", _utilization),
    ("memory", _memory),
    _one("encoder_percent", lambda n, h: n.nvmlDeviceGetEncoderUtilization(h)[0]),
    _one("decoder_percent", lambda n, h: n.nvmlDeviceGetDecoderUtilization(h)[0]),
    _one("power_watts", lambda n, h: n.nvmlDeviceGetPowerUsage(h), 1e-3),
    _one("energy_joules", lambda n, h: n.nvmlDeviceGetTotalEnergyConsumption(h), 1e-3),
    _one("temperature_celsius", lambda n, h: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)),
    _one("sm_clock_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)),
    _one("memory_clock_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM)),
    ("reasons", _reasons),
    ("fields", _of_fields(_FIELDS)),
)
"""Every second."""

SLOW: Sequence[tuple[str, Call]] = (
    _one("power_limit_watts", lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h), 1e-3),
    _one(
        "slowdown_celsius",
        lambda n, h: n.nvmlDeviceGetTemperatureThreshold(h, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    ),
    _one(
        "shutdown_celsius",
        lambda n, h: n.nvmlDeviceGetTemperatureThreshold(h, n.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
    ),
    _one("sm_clock_max_mhz", lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
    _one("pcie_replays", lambda n, h: n.nvmlDeviceGetPcieReplayCounter(h)),
    _one("pcie_generation", lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h)),
    _one("pcie_generation_max", lambda n, h: n.nvmlDeviceGetMaxPcieLinkGeneration(h)),
    _one("pcie_width", lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h)),
    _one("pcie_width_max", lambda n, h: n.nvmlDeviceGetMaxPcieLinkWidth(h)),
    _one(
        "ecc_corrected",
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, n.NVML_MEMORY_ERROR_TYPE_CORRECTED, n.NVML_VOLATILE_ECC),
    ),
    _one(
        "ecc_uncorrected",
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC),
    ),
    ("remapped", _remapped),
    ("slow fields", _of_fields(_SLOW_FIELDS)),
)
"""Once a minute."""


class _Card:
    """A GPU, or a part of one, that is held open."""

    def __init__(self, device: Device, handle: Any, parent: _Card | None = None) -> None:
        self.device = device
        self.handle = handle
        self.parent = parent
        self.unsupported: set[str] = set()
        self.slow: Values = {}  # as it was found last
        self.seen_until = 0  # of its processes, in the driver's microseconds
        self.last_xid = 0
        self.gpm: _Gpm | None = None


class _Gpm:
    """Activity of multiprocessors, tensor cores and memory, on Hopper and later: the difference of two samples."""

    def __init__(self, n: Any, card: _Card) -> None:
        self._n = n
        self._card = card
        self._samples = [n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()]
        self._take(self._samples[0])

    def _take(self, sample: Any) -> None:
        if self._card.parent is None:
            self._n.nvmlGpmSampleGet(self._card.handle, sample)
        else:
            self._n.nvmlGpmMigSampleGet(self._card.parent.handle, self._card.device.mig_id, sample)

    def read(self, _: Any) -> Values:
        """The values since the last question."""
        before, after = self._samples
        self._take(after)
        self._samples = [after, before]
        asked = self._n.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = self._n.NVML_GPM_METRICS_GET_VERSION, len(_GPM)
        asked.sample1, asked.sample2 = before, after
        for place, number in enumerate(_GPM):
            asked.metrics[place].metricId = number
        self._n.nvmlGpmMetricsGet(asked)
        found = zip(asked.metrics, _GPM.values(), strict=False)
        return {name: one.value / 100 for one, name in found if one.nvmlReturn == 0 and one.value == one.value}

    def close(self, _: Any) -> None:
        """Give the samples back."""
        for sample in self._samples:
            self._n.nvmlGpmSampleFree(sample)


class NvmlReader:
    """Implements Reader. The library has been initialised for it."""

    def __init__(self, devices: Mapping[Device, Any], clock: Callable[[], float] = time.time) -> None:
        """`devices`: with their handles."""
        import pynvml

        self._n = pynvml
        self._clock = clock
        self._cards = [_Card(device, handle) for device, handle in devices.items()]
        self._parts: list[_Card] = []
        self._errors: list[Xid] = []
        self._ended = threading.Event()
        for card in self._cards:
            self._begin_gpm(card)
        self._listener = threading.Thread(target=self._listen, name="gpu-errors", daemon=True)
        self._listener.start()

    def read(self, *, slow: bool) -> Sequence[Reading]:
        """Each GPU, and each part of one, now."""
        if slow:
            self._find_parts()
        return [self._reading(card, slow) for card in (*self._cards, *self._parts)]

    def processes(self) -> Sequence[GpuProcess]:
        """Who computes on them. The part of the multiprocessors is that since the last question."""
        found: list[GpuProcess] = []
        for card in (*self._cards, *self._parts):
            if card.parent is None and any(part.parent is card for part in self._parts):
                continue  # its parts tell of theirs
            running = self._asked(card, "processes", self._n.nvmlDeviceGetComputeRunningProcesses_v3) or []
            used = {} if card.parent else self._sm_use(card)
            for process in running:
                memory = process.usedGpuMemory
                is_known = memory is not None and memory not in _NOT_KNOWN
                found.append(
                    GpuProcess(
                        uuid=card.device.uuid,
                        pid=process.pid,
                        memory_bytes=float(memory) if is_known else None,
                        sm_percent=used.get(process.pid),
                    )
                )
        return found

    def errors(self) -> Sequence[Xid]:
        """Errors since the last question."""
        found, self._errors = self._errors, []
        return found

    def close(self) -> None:
        """Let go of the library."""
        self._ended.set()
        self._listener.join(2 * _EVENT_MILLISECONDS / 1000)
        for card in (*self._cards, *self._parts):
            if card.gpm is not None:
                self._asked(card, "gpm", card.gpm.close)
        try:
            self._n.nvmlShutdown()
        except self._n.NVMLError as error:
            _log.debug("the NVIDIA driver is let go of: %s", error)

    def _reading(self, card: _Card, slow: bool) -> Reading:
        values: Values = {}
        try:
            for name, call in FAST if card.parent is None else (("memory", _memory),):
                values |= self._asked(card, name, partial(call, self._n), may_end=True) or {}
            if card.gpm is not None:
                values |= self._asked(card, "gpm", card.gpm.read, may_end=True) or {}
            if slow and card.parent is None:
                card.slow = {}
                for name, call in SLOW:
                    found = self._asked(card, name, partial(call, self._n), may_end=True)
                    card.slow |= found or {}
        except self._n.NVMLError as error:
            return Reading(device=card.device, values=values, fault=self._fault(error), problem=str(error))
        xid = {"xid": float(card.last_xid)} if card.parent is None else {}
        return Reading(device=card.device, values={**values, **card.slow, **xid})

    def _asked(self, card: _Card, name: str, call: Callable[[Any], Any], *, may_end: bool = False) -> Any:
        """What a call gives; None where it gives nothing. `may_end`: raise what concerns the whole card."""
        n = self._n
        if name in card.unsupported:
            return None
        try:
            return call(card.handle)
        except (
            n.NVMLError_NotSupported,
            n.NVMLError_FunctionNotFound,
            n.NVMLError_InvalidArgument,
            n.NVMLError_NoPermission,
            AttributeError,  # a library that is older than the call
        ):
            card.unsupported.add(name)
        except n.NVMLError as error:
            if may_end and self._fault(error) is not Fault.UNREADABLE:
                raise
        return None

    def _fault(self, error: Any) -> Fault:
        n = self._n
        kinds = {
            n.NVML_ERROR_GPU_IS_LOST: Fault.LOST,
            n.NVML_ERROR_RESET_REQUIRED: Fault.RESET_REQUIRED,
            n.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Fault.DRIVER_CHANGED,
        }
        return kinds.get(error.value, Fault.UNREADABLE)

    def _begin_gpm(self, card: _Card) -> None:
        def begin(handle: Any) -> _Gpm | None:
            whole = handle if card.parent is None else card.parent.handle
            return _Gpm(self._n, card) if self._n.nvmlGpmQueryDeviceSupport(whole).isSupportedDevice else None

        card.gpm = self._asked(card, "gpm", begin)

    def _sm_use(self, card: _Card) -> dict[int, float]:
        samples = self._asked(
            card, "process use", lambda handle: self._n.nvmlDeviceGetProcessUtilization(handle, card.seen_until)
        )
        use: dict[int, list[int]] = {}
        for sample in samples or []:
            card.seen_until = max(card.seen_until, sample.timeStamp)
            if sample.smUtil <= 100:
                use.setdefault(sample.pid, []).append(sample.smUtil)
        return {pid: sum(found) / len(found) for pid, found in use.items()}

    def _find_parts(self) -> None:
        """The parts into which GPUs are divided now (MIG). Those that were there keep what is known of them."""
        known = {part.device.uuid: part for part in self._parts}
        self._parts = [
            known.get(part.device.uuid) or self._begun(part) for card in self._cards for part in self._parts_of(card)
        ]

    def _begun(self, part: _Card) -> _Card:
        self._begin_gpm(part)
        return part

    def _parts_of(self, card: _Card) -> Iterator[_Card]:
        n = self._n
        mode = self._asked(card, "mig", n.nvmlDeviceGetMigMode)
        for index in range(
            self._asked(card, "mig count", n.nvmlDeviceGetMaxMigDeviceCount) or 0 if mode and mode[0] else 0
        ):
            try:
                handle = n.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, index)
                name = text(n.nvmlDeviceGetName(handle))
                device = Device(
                    index=card.device.index,
                    uuid=text(n.nvmlDeviceGetUUID(handle)),
                    product=card.device.product,
                    memory_bytes=int(n.nvmlDeviceGetMemoryInfo(handle).total),
                    pci_bus_id=card.device.pci_bus_id,
                    mig_profile=name.rsplit(" ", 1)[-1],
                    mig_id=int(n.nvmlDeviceGetGpuInstanceId(handle)),
                )
            except n.NVMLError:
                continue  # there is none at this place, or it was taken away just now
            yield _Card(device, handle, parent=card)

    def _listen(self) -> None:
        """Hear of errors, in a thread of its own: the driver tells of them when they happen."""
        n = self._n
        try:
            events = n.nvmlEventSetCreate()
        except n.NVMLError:
            return
        cards = {}
        for card in self._cards:
            try:
                n.nvmlDeviceRegisterEvents(card.handle, n.nvmlEventTypeXidCriticalError, events)
                cards[_address(card.handle)] = card
            except n.NVMLError:
                continue  # a card that tells of none
        while cards and not self._ended.is_set():
            try:
                event = n.nvmlEventSetWait_v2(events, _EVENT_MILLISECONDS)
            except n.NVMLError_Timeout:
                continue
            except n.NVMLError as error:
                _log.warning("errors of GPUs are not heard of any more: %s", error)
                break
            found = cards.get(_address(event.device))
            if found is not None and len(self._errors) < _MOST_ERRORS:
                found.last_xid = int(event.eventData)
                self._errors.append(Xid(uuid=found.device.uuid, code=int(event.eventData), at=self._clock()))
        try:
            n.nvmlEventSetFree(events)
        except n.NVMLError as error:
            _log.debug("the set of events is let go of: %s", error)


def text(value: str | bytes) -> str:
    """Older versions of the library answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
