"""What a role asks for, and the shape that comes of it when the rules are satisfied."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.hardware.machines import MachineType


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """What the user wrote for one role: chief, worker, ps or evaluator."""

    role: str
    count: int
    machine_type: str = ""
    accelerator: str = ""  # as the user wrote it, "" for none
    accelerator_count: int = 0  # of each replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The resolved thing: so many replicas of this role, each on this machine with these accelerators."""

    role: str
    count: int
    machine: MachineType
    accelerator: str  # canonical name, "" for none
    accelerator_count: int  # of each replica
    vcpus: float
    memory_gb: float


def accelerators_of(shapes: Iterable[Shape]) -> tuple[str, ...]:
    """The accelerators that a job asks for, each once."""
    return tuple(dict.fromkeys(shape.accelerator for shape in shapes if shape.accelerator))


def needs_tpu(shapes: Iterable[Shape]) -> bool:
    """Whether any replica asks for a TPU, which only a cloud has."""
    return any(name.startswith("TPU_") for name in accelerators_of(shapes))
