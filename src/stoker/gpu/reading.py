"""What is read of GPUs again and again: readings, processes, and errors that the driver tells of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from .device import Device


class Fault(StrEnum):
    """Why a GPU, or all of them, cannot be read."""

    LOST = "LOST"  # it has fallen off the bus
    RESET_REQUIRED = "RESET_REQUIRED"
    DRIVER_CHANGED = "DRIVER_CHANGED"  # the driver was upgraded under the library: the machine wants a restart
    UNREADABLE = "UNREADABLE"
    STUCK = "STUCK"  # a call has not come back


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A GPU at one moment."""

    device: Device
    values: Mapping[str, float] = field(default_factory=dict)  # by the names of gpu/metrics.py, those that it gives
    fault: Fault | None = None
    problem: str = ""  # the fault in words


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that uses a GPU."""

    uuid: str  # of the GPU, or of the part of one (MIG)
    pid: int  # as the machine counts, outside of any container
    memory_bytes: float | None = None
    sm_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An error of a GPU that its driver has told of."""

    uuid: str
    code: int
    at: float


class Reader(Protocol):
    """The GPUs of a machine, held open to be read again and again, by one thread. Nothing of it raises."""

    def read(self, *, slow: bool) -> Sequence[Reading]:
        """Each GPU now. `slow`: also what changes seldom."""
        ...

    def processes(self) -> Sequence[GpuProcess]:
        """Who uses them."""
        ...

    def errors(self) -> Sequence[Xid]:
        """Errors since the last question."""
        ...

    def close(self) -> None:
        """Let go of them."""
        ...
