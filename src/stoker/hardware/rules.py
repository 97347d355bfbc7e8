"""The rules of a request: whether this cluster can be had, every fault of it at once, and what it resolves to."""

from collections.abc import Iterable, Sequence

from stoker.hardware.faults import Fault, Field, closest, either
from stoker.hardware.machines import MachineType, machine_types, nearest_machine_type
from stoker.hardware.place_rules import place_faults
from stoker.hardware.regions import zones_with
from stoker.hardware.role_rules import CLOUD_TPU, Resolved, resolve
from stoker.hardware.shapes import RoleRequest, Shape, accelerators_of, needs_tpu
from stoker.hardware.tiers import CUSTOM, ROLES, find_role, find_tier, tier_groups, tiers

__all__ = ["Fault", "Field", "RoleRequest", "Shape", "check", "needs_tpu", "zones_for"]


def check(tier: str, requests: Sequence[RoleRequest], region: str) -> tuple[tuple[Shape, ...], tuple[Fault, ...]]:
    """What the job would run on, and all that is wrong with it. Only without faults are the shapes the whole job."""
    # 1. Each role once, with a count that makes sense.
    asked, faults = _by_role(requests)
    # 2. The tier says what runs, or leaves it to the user.
    name = find_tier(tier)
    if name is None:
        faults.append(_no_such_tier(tier))
        wanted = [request for request in asked.values() if request.machine_type]
    elif name == CUSTOM:
        wanted = list(asked.values())
        if not any(find_role(request.role) == "chief" for request in requests):
            wanted.insert(0, RoleRequest(role="chief", count=1))  # which then lacks its machine type
    else:
        faults.extend(_not_yours_to_choose(name, asked.values()))
        groups = tier_groups(name)
        wanted = [
            RoleRequest(role=group.role, count=group.replicas, machine_type=group.machine_type) for group in groups
        ]
    # 3. Each role by itself.
    roles = [resolve(request) for request in wanted]
    faults.extend(fault for role in roles for fault in role.faults)
    # 4. All of them together, and in their place.
    faults.extend(_mixed_kinds(roles))
    faults.extend(place_faults(tuple(dict.fromkeys(role.accelerator for role in roles if role.accelerator)), region))
    return tuple(role.shape for role in roles if role.shape is not None), tuple(faults)


def zones_for(shapes: Iterable[Shape], region: str) -> list[str]:
    """The zones of the region where all these shapes can run together."""
    return zones_with(region, accelerators_of(shapes))


def _by_role(requests: Sequence[RoleRequest]) -> tuple[dict[str, RoleRequest], list[Fault]]:
    """The requests that ask for replicas, by role and in the order of ROLES, and the faults in their counts.

    A worker, ps or evaluator with a count of 0 asks for nothing, whatever else it says.
    """
    faults: list[Fault] = []
    asked: dict[str, RoleRequest] = {}
    for request in requests:
        role, count = find_role(request.role), request.count
        if not role:
            faults.append(_fault(request.role, f"role {request.role!r}", "no such role", f"use {either(ROLES)}"))
        elif role in asked:
            faults.append(_fault(role, f"{role} twice", "a role has one machine type and one count", "ask once"))
        elif role == "chief" and count != 1:
            faults.append(_fault(role, f"{count} chiefs", "a job has exactly one chief", "use 1"))
        elif count < 0:
            faults.append(_fault(role, f"{count} replicas", "a count cannot be negative", "use 0 or more"))
        elif count > 0:
            asked[role] = RoleRequest(
                role=role,
                count=count,
                machine_type=request.machine_type,
                accelerator=request.accelerator,
                accelerator_count=request.accelerator_count,
            )
    return {role: asked[role] for role in ROLES if role in asked}, faults


def _no_such_tier(tier: str) -> Fault:
    near = closest(tier, tiers()) or tiers()
    return Fault(role="", field="scale_tier", found=tier, why="there is no such scale tier", fix=f"use {either(near)}")


def _not_yours_to_choose(tier: str, requests: Iterable[RoleRequest]) -> list[Fault]:
    """A ready-made tier fixes the machines; whoever names some wanted CUSTOM."""
    why, fix = f"scale tier {tier} fixes its machines", f"use scale tier {CUSTOM}, or leave this to {tier}"
    faults = []
    for request in requests:
        if request.role != "chief":
            faults.append(_fault(request.role, f"{request.count} x {request.role}", why, fix))
        elif request.machine_type:
            faults.append(_fault(request.role, request.machine_type, why, fix, "machine_type"))
        if request.accelerator or request.accelerator_count:
            found = f"{request.accelerator_count} x {request.accelerator}"
            faults.append(_fault(request.role, found, why, fix, "accelerator_type"))
    return faults


def _mixed_kinds(roles: Sequence[Resolved]) -> list[Fault]:
    """Legacy and Compute Engine types do not mix; cloud_tpu goes with both."""
    kinds = [(role, role.machine) for role in roles if role.machine is not None and role.machine.name != CLOUD_TPU]
    chief = next((machine for role, machine in kinds if role.request.role == "chief"), None)
    if chief is None:
        return []
    others = [(role, machine) for role, machine in kinds if machine.legacy != chief.legacy]
    twins = [_compute_engine_for(machine) if machine.legacy else _legacy_for(role) for role, machine in others]
    why = (
        f"the chief's {chief.name} is {'a legacy' if chief.legacy else 'a Compute Engine'} machine type, "
        "and those of a job are all legacy or all Compute Engine"
    )
    faults = []
    for (role, machine), twin in zip(others, twins, strict=True):
        name = role.request.role
        fix = f"use {twin} for the {name}" if all(twins) else f"use {_compute_engine_for(chief)} for the chief"
        faults.append(_fault(name, machine.name, why, fix, "machine_type"))
    return faults


def _legacy_for(role: Resolved) -> str:
    """The legacy type that stands for the same machine and accelerators, "" if there is none."""
    wanted = (role.request.machine_type, role.accelerator, role.accelerator_count)
    for machine in machine_types().values():
        if machine.legacy and (machine.gce_equivalent, machine.accelerator, machine.accelerator_count) == wanted:
            return machine.name
    return ""


def _compute_engine_for(legacy: MachineType) -> str:
    """The Compute Engine type behind a legacy one, or the nearest on offer, with the GPUs beside it."""
    equivalent = machine_types()[legacy.gce_equivalent]
    name = equivalent.name if equivalent.offered else nearest_machine_type(equivalent.name)
    return f"{name} with {legacy.accelerator_count:g} x {legacy.accelerator}" if legacy.accelerator else name


def _fault(role: str, found: str, why: str, fix: str, field: Field = "replica_count") -> Fault:
    return Fault(role=role, field=field, found=found, why=why, fix=fix)
