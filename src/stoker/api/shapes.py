"""The machines of a request, by the rules of the hardware: what each role gets, or every fault with its field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from stoker.core.errors import Violation
from stoker.core.spec import Machine
from stoker.hardware.rules import Fault, RoleRequest, Shape, check, needs_tpu

MOST_REPLICAS = 10_000
"""Of one role. No site has more, and to look for room for a billion would take for ever."""

LONGEST_NAME = 100
"""Of a machine type, an accelerator, a region: what is longer is none, and is not to be quoted, or kept, in full."""

Asked = tuple[str, tuple[RoleRequest, ...], str]
"""What is asked of the hardware: the tier, each role's request, the region."""


def shape_violations(asked: Asked, path: Callable[[str, str], str]) -> list[Violation]:
    """Everything that is wrong with the machines. `path`: the field for (role, what of it); the role "" means the tier."""
    tier, requests, region = asked
    shapes, faults = checked(asked)
    if faults and tier != "CUSTOM":
        faults += _faults_if_custom(requests, region, faults)
    if not region:
        faults = tuple(fault for fault in faults if fault.field not in ("region", "zone"))
    found = [Violation(_path(fault, path), f"{fault.found}: {fault.why}; {fault.fix}") for fault in faults]
    if needs_tpu(shapes):
        role = next(s.role for s in shapes if s.accelerator.startswith("TPU_") or s.machine.name == "cloud_tpu")
        where = path("", "scale_tier") if tier == "BASIC_TPU" else path(role, "machine_type")
        found.append(Violation(where, "this Stoker has no TPUs; use GPUs or CPUs"))
    return found


@lru_cache(maxsize=1024)
def checked(asked: Asked) -> tuple[tuple[Shape, ...], tuple[Fault, ...]]:
    """The shapes, and the faults. Kept, for the same few clusters are asked for again and again."""
    tier, requests, region = asked
    return check(tier, requests, region)


def machine_of(shape: Shape) -> Machine:
    """The machine that one replica of a shape gets."""
    return Machine(
        type=shape.machine.name,
        vcpus=shape.vcpus,
        memory_gb=shape.memory_gb,
        accelerator=shape.accelerator,
        accelerator_milli=1000 * shape.accelerator_count,
    )


def _faults_if_custom(requests: Sequence[RoleRequest], region: str, known: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Names that are wrong in any tier: told at once, not only when the tier has been put right."""
    named = {text for r in requests for text in (r.machine_type, r.accelerator) if text}
    _, faults = check("CUSTOM", requests, region)
    return tuple(fault for fault in faults if fault.found in named and fault not in known)


def _path(fault: Fault, path: Callable[[str, str], str]) -> str:
    return path("" if fault.field in ("region", "zone") else fault.role, fault.field)
