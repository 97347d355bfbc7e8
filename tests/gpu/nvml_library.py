"""A stand-in for NVIDIA's driver library, for the real nvidia-ml-py: C functions by ctypes, GPUs by script, faults by call."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pynvml as n

NOT_SUPPORTED, TIMEOUT, LOST, MISMATCH = (
    n.NVML_ERROR_NOT_SUPPORTED,
    n.NVML_ERROR_TIMEOUT,
    n.NVML_ERROR_GPU_IS_LOST,
    n.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)
MISSING = "missing"
"""In place of an error: the library has no such function."""


@dataclass
class Gpu:
    """A GPU of the script. What it shows may be changed at any time; an entry of `faults` is the error of a call."""

    uuid: str = "GPU-0"
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 80 << 30
    used: int = 20 << 30
    busy: int = 90  # percent
    memory_access: int = 45
    milliwatts: int = 500_000
    millijoules: int = 1_000_000
    celsius: int = 60
    clock: int = 1980
    reasons: int = 0
    fields: dict[int, int] = field(default_factory=lambda: {82: 70, 197: 1000, 198: 2000, 138: 5, 139: 6, 230: 0})
    ecc: dict[int, int] = field(default_factory=lambda: {0: 3, 1: 0})
    remapped: tuple[int, int, int, int] = (1, 0, 0, 0)
    processes: dict[int, tuple[int, int]] = field(default_factory=dict)  # pid → (bytes, percent of the multiprocessors)
    gpm: dict[int, float] | None = field(default_factory=lambda: {1: 95.0, 2: 80.0, 3: 40.0, 5: 30.0, 10: 50.0})
    parts: list[Gpu] = field(default_factory=list)
    faults: dict[str, int | str] = field(default_factory=dict)


class Library:
    """What `pynvml.nvmlLib` is while it plays."""

    def __init__(self, gpus: list[Gpu], begins: int = 0) -> None:
        """`begins`: what nvmlInit returns."""
        self.gpus = gpus
        self.begins = begins
        self.calls: dict[str, int] = {}
        self.faults: dict[str, int | str] = {}  # of calls, whichever GPU they are for
        self.hangs: dict[str, threading.Event] = {}  # calls that come back when the event is set
        self.open_samples = 0
        self._xids: list[tuple[int, int]] = []
        self._heard = threading.Condition()
        self._kept: dict[str, Any] = {}

    def tell_xid(self, index: int, code: int) -> None:
        """Let the driver tell of an error."""
        with self._heard:
            self._xids.append((index, code))
            self._heard.notify()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or f"_{name}" not in FUNCTIONS or self._is_missing(name):
            raise AttributeError(name)
        if name not in self._kept:
            types, function = FUNCTIONS[f"_{name}"]
            self._kept[name] = c.CFUNCTYPE(c.c_int, *types)(self._guarded(name, function))
        return self._kept[name]

    def _is_missing(self, name: str) -> bool:
        return MISSING in (self.faults.get(name), *(gpu.faults.get(name) for gpu in self.gpus))

    def _guarded(self, name: str, function: Callable[..., int | None]) -> Callable[..., int]:
        def called(*words: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.hangs:
                self.hangs[name].wait(60)
            found = self.faults.get(name)
            takes_handle = bool(words) and FUNCTIONS[f"_{name}"][0][0] is H and words[0]
            if found is None and takes_handle and _FIRST <= words[0] < _FIRST + 100 * len(self.gpus):
                found = self.gpu(words[0]).faults.get(name)
            if isinstance(found, int):
                return found
            return function(self, *words) or 0

        return called

    def gpu(self, handle: int) -> Gpu:
        """The GPU, or the part of one, of a handle."""
        index, part = divmod(handle - _FIRST, 100)
        return self.gpus[index].parts[part - 1] if part else self.gpus[index]


_FIRST = 100_000
H, U, P = c.c_void_p, c.c_uint, c.c_void_p
FUNCTIONS: dict[str, tuple[tuple[Any, ...], Callable[..., int | None]]] = {}


def function(*types: Any) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """A function of the library, with the types of its arguments."""

    def add(found: Callable[..., int | None]) -> Callable[..., int | None]:
        FUNCTIONS[found.__name__] = (types, found)
        return found

    return add


def put(kind: Any, address: int, value: Any) -> None:
    c.cast(address, c.POINTER(kind))[0] = value


def struct(kind: Any, address: int) -> Any:
    return c.cast(address, c.POINTER(kind))[0]


def reads(name: str, kind: Any, value: Callable[[Gpu], Any]) -> None:
    """A function `(handle, &value)`."""
    FUNCTIONS[f"_{name}"] = ((H, P), lambda own, handle, at: put(kind, at, value(own.gpu(handle))))


@function(U)
def _nvmlInitWithFlags(own: Library, flags: int) -> int:
    return own.begins


@function()
def _nvmlShutdown(own: Library) -> None:
    return None


@function(P)
def _nvmlDeviceGetCount_v2(own: Library, at: int) -> None:
    put(c.c_uint, at, len(own.gpus))


@function(U, P)
def _nvmlDeviceGetHandleByIndex_v2(own: Library, index: int, at: int) -> None:
    put(c.c_void_p, at, _FIRST + 100 * index)


def _text(address: int, value: str) -> None:
    c.memmove(address, value.encode() + b"\0", len(value) + 1)


@function(H, P, U)
def _nvmlDeviceGetUUID(own: Library, handle: int, at: int, length: int) -> None:
    _text(at, own.gpu(handle).uuid)


@function(H, P, U)
def _nvmlDeviceGetName(own: Library, handle: int, at: int, length: int) -> None:
    _text(at, own.gpu(handle).name)


@function(H, P)
def _nvmlDeviceGetPciInfo_v3(own: Library, handle: int, at: int) -> None:
    struct(n.nvmlPciInfo_t, at).busId = f"00000000:{(handle - _FIRST) // 100:02X}:00.0".encode()


@function(H, P)
def _nvmlDeviceGetMemoryInfo(own: Library, handle: int, at: int) -> None:
    gpu, found = own.gpu(handle), struct(n.c_nvmlMemory_t, at)
    found.total, found.used, found.free = gpu.memory, gpu.used + _KEPT, gpu.memory - gpu.used - _KEPT


_KEPT = 500 << 20


@function(H, P)
def _nvmlDeviceGetMemoryInfo_v2(own: Library, handle: int, at: int) -> None:
    gpu, found = own.gpu(handle), struct(n.c_nvmlMemory_v2_t, at)
    found.total, found.used, found.free, found.reserved = gpu.memory, gpu.used, gpu.memory - gpu.used - _KEPT, _KEPT


@function(H, P)
def _nvmlDeviceGetUtilizationRates(own: Library, handle: int, at: int) -> int:
    gpu = own.gpu(handle)
    if any(gpu in one.parts for one in own.gpus):
        return int(NOT_SUPPORTED)
    struct(n.c_nvmlUtilization_t, at).gpu = gpu.busy
    struct(n.c_nvmlUtilization_t, at).memory = gpu.memory_access
    return 0


@function(H, P, P)
def _nvmlDeviceGetEncoderUtilization(own: Library, handle: int, at: int, period: int) -> None:
    put(c.c_uint, at, 0)


@function(H, P, P)
def _nvmlDeviceGetDecoderUtilization(own: Library, handle: int, at: int, period: int) -> None:
    put(c.c_uint, at, 0)


reads("nvmlDeviceGetPowerUsage", c.c_uint, lambda gpu: gpu.milliwatts)
reads("nvmlDeviceGetTotalEnergyConsumption", c.c_uint64, lambda gpu: gpu.millijoules)
reads("nvmlDeviceGetEnforcedPowerLimit", c.c_uint, lambda gpu: 700_000)
reads("nvmlDeviceGetCurrentClocksEventReasons", c.c_ulonglong, lambda gpu: gpu.reasons)
reads("nvmlDeviceGetCurrentClocksThrottleReasons", c.c_ulonglong, lambda gpu: gpu.reasons)
reads("nvmlDeviceGetPcieReplayCounter", c.c_uint, lambda gpu: 7)
reads("nvmlDeviceGetCurrPcieLinkGeneration", c.c_uint, lambda gpu: 5)
reads("nvmlDeviceGetMaxPcieLinkGeneration", c.c_uint, lambda gpu: 5)
reads("nvmlDeviceGetCurrPcieLinkWidth", c.c_uint, lambda gpu: 8)
reads("nvmlDeviceGetMaxPcieLinkWidth", c.c_uint, lambda gpu: 16)
reads("nvmlDeviceGetMaxMigDeviceCount", c.c_uint, lambda gpu: 7)
reads("nvmlDeviceGetGpuInstanceId", c.c_uint, lambda gpu: int(gpu.uuid.rsplit("-", 1)[-1]))


@function(H, U, P)
def _nvmlDeviceGetTemperature(own: Library, handle: int, sensor: int, at: int) -> None:
    put(c.c_uint, at, own.gpu(handle).celsius)


@function(H, U, P)
def _nvmlDeviceGetTemperatureThreshold(own: Library, handle: int, kind: int, at: int) -> None:
    put(c.c_uint, at, {n.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: 92, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: 87}[kind])


@function(H, U, P)
def _nvmlDeviceGetClockInfo(own: Library, handle: int, kind: int, at: int) -> None:
    put(c.c_uint, at, own.gpu(handle).clock if kind == n.NVML_CLOCK_SM else 2619)


@function(H, U, P)
def _nvmlDeviceGetMaxClockInfo(own: Library, handle: int, kind: int, at: int) -> None:
    put(c.c_uint, at, 1980)


@function(H, c.c_int32, P)
def _nvmlDeviceGetFieldValues(own: Library, handle: int, count: int, at: int) -> None:
    fields = own.gpu(handle).fields
    for found in c.cast(at, c.POINTER(n.c_nvmlFieldValue_t * count))[0]:
        found.nvmlReturn = 0 if found.fieldId in fields else NOT_SUPPORTED
        found.valueType = 3
        found.value.ullVal = fields.get(found.fieldId, 0)


@function(H, U, U, P)
def _nvmlDeviceGetTotalEccErrors(own: Library, handle: int, kind: int, counter: int, at: int) -> None:
    put(c.c_ulonglong, at, own.gpu(handle).ecc[kind])


@function(H, P, P, P, P)
def _nvmlDeviceGetRemappedRows(own: Library, handle: int, *at: int) -> None:
    for address, value in zip(at, own.gpu(handle).remapped, strict=True):
        put(c.c_uint, address, value)


@function(H, P, P)
def _nvmlDeviceGetMigMode(own: Library, handle: int, now: int, pending: int) -> None:
    put(c.c_uint, now, int(bool(own.gpu(handle).parts)))


@function(H, U, P)
def _nvmlDeviceGetMigDeviceHandleByIndex(own: Library, handle: int, index: int, at: int) -> int:
    if index >= len(own.gpu(handle).parts):
        return int(n.NVML_ERROR_NOT_FOUND)
    put(c.c_void_p, at, handle + index + 1)
    return 0


@function(H, P, P)
def _nvmlDeviceGetComputeRunningProcesses_v3(own: Library, handle: int, count: int, at: int | None) -> int:
    processes = own.gpu(handle).processes
    room = struct(c.c_uint, count)
    put(c.c_uint, count, len(processes))
    if room < len(processes) or (processes and not at):
        return int(n.NVML_ERROR_INSUFFICIENT_SIZE)
    for place, (pid, (memory, _)) in enumerate(processes.items()):
        found = c.cast(at, c.POINTER(n.c_nvmlProcessInfo_v3_t))[place]
        found.pid, found.usedGpuMemory = pid, memory
    return 0


@function(H, P, P, c.c_ulonglong)
def _nvmlDeviceGetProcessUtilization(own: Library, handle: int, at: int | None, count: int, since: int) -> int:
    processes = own.gpu(handle).processes
    put(c.c_uint, count, len(processes))
    if not at:
        return int(n.NVML_ERROR_INSUFFICIENT_SIZE if processes else NOT_SUPPORTED)
    for place, (pid, (_, percent)) in enumerate(processes.items()):
        found = c.cast(at, c.POINTER(n.c_nvmlProcessUtilizationSample_t))[place]
        found.pid, found.smUtil, found.timeStamp = pid, percent, since + 1_000_000
    return 0


@function(H, P)
def _nvmlGpmQueryDeviceSupport(own: Library, handle: int, at: int) -> None:
    struct(n.c_nvmlGpmSupport_t, at).isSupportedDevice = int(own.gpu(handle).gpm is not None)


@function(P)
def _nvmlGpmSampleAlloc(own: Library, at: int) -> None:
    own.open_samples += 1
    put(c.c_void_p, at, 16 * own.open_samples)


@function(P)
def _nvmlGpmSampleFree(own: Library, sample: int) -> None:
    own.open_samples -= 1


@function(H, P)
def _nvmlGpmSampleGet(own: Library, handle: int, sample: int) -> None:
    own.sampled = own.gpu(handle)  # type: ignore[attr-defined]


@function(H, U, P)
def _nvmlGpmMigSampleGet(own: Library, handle: int, part: int, sample: int) -> None:
    gpus = {gpu.uuid.rsplit("-", 1)[-1]: gpu for gpu in own.gpu(handle).parts}
    own.sampled = gpus[str(part)]  # type: ignore[attr-defined]


@function(P)
def _nvmlGpmMetricsGet(own: Library, at: int) -> None:
    asked = struct(n.c_nvmlGpmMetricsGet_t, at)
    for place in range(asked.numMetrics):
        one, known = asked.metrics[place], own.sampled.gpm  # type: ignore[attr-defined]
        one.nvmlReturn = 0 if one.metricId in known else NOT_SUPPORTED
        one.value = known.get(one.metricId, 0.0)


@function(P)
def _nvmlEventSetCreate(own: Library, at: int) -> None:
    put(c.c_void_p, at, 8)


@function(H, c.c_ulonglong, P)
def _nvmlDeviceRegisterEvents(own: Library, handle: int, kinds: int, events: int) -> None:
    return None


@function(P, P, U)
def _nvmlEventSetWait_v2(own: Library, events: int, at: int, milliseconds: int) -> int:
    with own._heard:
        if not own._xids:
            own._heard.wait(min(0.05, milliseconds / 1000))
        if not own._xids:
            return int(TIMEOUT)
        index, code = own._xids.pop(0)
    found = struct(n.c_nvmlEventData_t, at)
    found.device = c.cast(_FIRST + 100 * index, type(found.device))
    found.eventType, found.eventData = n.nvmlEventTypeXidCriticalError, code
    return 0


@function(P)
def _nvmlEventSetFree(own: Library, events: int) -> None:
    return None


@contextmanager
def playing(*gpus: Gpu, begins: int = 0) -> Iterator[Library]:
    """Let nvidia-ml-py find this library for a while, as it finds the driver's."""
    before, known = n.nvmlLib, dict(n._nvmlGetFunctionPointer_cache)
    n._nvmlGetFunctionPointer_cache.clear()
    n.nvmlLib = library = Library(list(gpus), begins)
    try:
        yield library
    finally:
        n.nvmlLib = before
        n._nvmlGetFunctionPointer_cache.clear()
        n._nvmlGetFunctionPointer_cache.update(known)
