"""The rules for one role: a machine type on offer, and accelerators that it takes."""

from typing import NamedTuple

from stoker.hardware import explain
from stoker.hardware.accelerators import accelerators, find_accelerator
from stoker.hardware.explain import Advice
from stoker.hardware.faults import Fault, closest, either
from stoker.hardware.limits import sold_accelerators, sold_on, valid_counts
from stoker.hardware.machines import (
    DEFAULT_MACHINE_TYPE,
    MachineType,
    find_machine_type,
    is_foreign,
    machine_types,
    nearest_machine_type,
)
from stoker.hardware.shapes import RoleRequest, Shape

CLOUD_TPU = "cloud_tpu"


class Resolved(NamedTuple):
    """What could be made out of one role's request, and every fault in it.

    A machine and an accelerator that are known stand here whatever is wrong with them, so that the rules for the whole
    job can be asked in the same breath.
    """

    request: RoleRequest
    machine: MachineType | None
    accelerator: str  # canonical name of what is named or built in; "" for none, or for an unknown one
    accelerator_count: int
    faults: tuple[Fault, ...]

    @property
    def shape(self) -> Shape | None:
        """The shape asked for, if nothing is wrong with it."""
        if self.faults or self.machine is None:
            return None
        return Shape(
            role=self.request.role,
            count=self.request.count,
            machine=self.machine,
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            vcpus=self.machine.vcpus,
            memory_gb=self.machine.memory_gb,
        )


def resolve(request: RoleRequest) -> Resolved:
    """One role by itself: its machine type, its accelerators, and whether they go together."""
    machine, accelerator, count = find_machine_type(request.machine_type), _accelerator(request), 0
    wrong_machine = _machine_fault(request, machine)
    faults = [wrong_machine]
    if isinstance(accelerator, Fault):
        faults.append(accelerator)
        accelerator = ""
    elif accelerator:
        count = request.accelerator_count
        if machine is not None and wrong_machine is None:
            faults.append(_mismatch(request, machine, accelerator))
    elif machine is not None:
        accelerator, count = machine.accelerator, int(machine.accelerator_count)
    return Resolved(request, machine, accelerator, count, tuple(fault for fault in faults if fault is not None))


def _machine_fault(request: RoleRequest, machine: MachineType | None) -> Fault | None:
    name = request.machine_type
    if machine is not None and machine.offered and (name != CLOUD_TPU or request.role == "worker"):
        return None
    if machine is not None and machine.offered:
        found, why = name, f"{CLOUD_TPU} runs workers only, beside a {request.role} on an ordinary machine"
        fix = f"use {DEFAULT_MACHINE_TYPE} here"
    elif not name:
        found, why = "no machine type", f"the {request.role} needs one"
        fix = f"name one, such as {DEFAULT_MACHINE_TYPE}"
    else:
        found, nearest = name, nearest_machine_type(name)
        exists = machine is not None or is_foreign(name)
        why = f"{name} is not offered for training" if exists else "there is no such machine type"
        fix = f"use {nearest}" if nearest else f"name one on offer: {_one_of_each_series()}"
    return Fault(role=request.role, field="machine_type", found=found, why=why, fix=fix)


def _accelerator(request: RoleRequest) -> str | Fault:
    """The canonical name of the accelerator, "" for none."""
    text, count = request.accelerator, request.accelerator_count
    if not text and count == 0:
        return ""
    known = find_accelerator(text)
    if known is not None and sold_on(known.name):
        return known.name
    offered = sold_accelerators()
    gpus = [name for name in offered if not accelerators()[name].is_tpu]
    if not text:
        found, why = f"{count} accelerators of no type", "a number of accelerators needs their type"
        fix = f"name the type: {either(gpus)}"
    elif known is not None:
        found, why = text, f"no machine type carries {known.name}"
        fix = f"use {either(explain.similar_accelerators(known.name))}"
    else:
        found, why = text, "there is no such accelerator"
        fix = f"use {either(closest(text, offered) or gpus)}"
    return Fault(role=request.role, field="accelerator_type", found=found, why=why, fix=fix)


def _mismatch(request: RoleRequest, machine: MachineType, accelerator: str) -> Fault | None:
    """Why this machine does not take these accelerators; None if it does."""
    count, valid = request.accelerator_count, valid_counts(machine.name, accelerator)
    if not accelerator or count in valid:
        return None
    if machine.legacy and machine.name != CLOUD_TPU:
        advice = explain.not_on_legacy(machine, accelerator, count)
    elif valid and count < 1:
        advice = Advice("an accelerator needs a count of at least 1", f"use {either(valid)}, or name no accelerator")
    elif valid and (machine.gpu_attachable or machine.name == CLOUD_TPU):
        advice = explain.not_this_count(machine, accelerator, count)
    elif machine.gpu_attachable:
        advice = explain.none_at_all(machine, accelerator, count)
    else:
        advice = explain.not_the_built_in(machine, accelerator, count)
    return Fault(
        role=request.role,
        field="accelerator_count" if valid else "accelerator_type",
        found=f"{count} x {accelerator} on {machine.name}",
        why=advice.why,
        fix=advice.fix,
    )


def _one_of_each_series() -> str:
    """The smallest offered machine type of every series, as examples."""
    firsts: dict[str, str] = {}
    for machine in machine_types().values():
        if machine.offered:
            firsts.setdefault(machine.series, machine.name)
    return either(firsts.values())
