"""GPUs that are only said to be there, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stoker.gpu.device import Device
from stoker.gpu.reading import GpuProcess, Reader, Reading, Xid

Script = Callable[[Device, int], Mapping[str, float]]
"""What a device shows at its n-th reading."""


def busy(device: Device, n: int) -> Mapping[str, float]:
    """A device that is always busy."""
    return {
        "utilization_percent": 90.0,
        "memory_used_bytes": device.memory_bytes / 2,
        "memory_total_bytes": float(device.memory_bytes),
        "power_watts": 250.0,
        "temperature_celsius": 60.0,
    }


class FakeDriver:
    """Implements Driver with what it was given."""

    def __init__(self, *products: str, script: Script = busy) -> None:
        self._devices = [
            Device(index=n, uuid=f"GPU-fake-{n}", product=product, memory_bytes=16 << 30)
            for n, product in enumerate(products)
        ]
        self._script = script

    def devices(self) -> Sequence[Device]:
        """What it was given."""
        return self._devices

    def reader(self) -> Reader | None:
        """Its script, played."""
        return FakeReader(self._devices, self._script) if self._devices else None


class FakeReader:
    """Implements Reader."""

    def __init__(self, devices: Sequence[Device], script: Script) -> None:
        self._devices = devices
        self._script = script
        self._readings = 0

    def read(self, *, slow: bool) -> Sequence[Reading]:
        """The next moment of the script."""
        self._readings += 1
        return [Reading(device=d, values=self._script(d, self._readings - 1)) for d in self._devices]

    def processes(self) -> Sequence[GpuProcess]:
        """None."""
        return []

    def errors(self) -> Sequence[Xid]:
        """None."""
        return []

    def close(self) -> None:
        """Nothing is held."""
