"""GPUs that are only said to be there, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.gpu.device import Device


class FakeDriver:
    """Implements Driver with what it was given."""

    def __init__(self, *products: str) -> None:
        self._devices = [
            Device(index=n, uuid=f"GPU-fake-{n}", product=product, memory_bytes=16 << 30)
            for n, product in enumerate(products)
        ]

    def devices(self) -> Sequence[Device]:
        """What it was given."""
        return self._devices
