"""A way to read GPUs: which there are, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .device import Device
from .reading import Reader


class Driver(Protocol):
    """A vendor's library."""

    def devices(self) -> Sequence[Device]:
        """The GPUs of this machine; none where there is no driver. Never raises."""
        ...

    def reader(self) -> Reader | None:
        """Hold them open to be read again and again; None where there are none. Never raises."""
        ...
