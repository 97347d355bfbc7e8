"""Why a machine does not take what was asked for, and what comes nearest: sentences made of the tables' figures."""

from typing import NamedTuple

from stoker.hardware.accelerators import accelerators
from stoker.hardware.faults import either
from stoker.hardware.limits import Limit, counts_sold, limits, sold_accelerators, sold_on, sold_with, valid_counts
from stoker.hardware.machines import MachineType, find_machine_type, machine_types
from stoker.hardware.regions import regions_with


class Advice(NamedTuple):
    """Why not, and what instead."""

    why: str
    fix: str


def not_this_count(machine: MachineType, accelerator: str, count: int) -> Advice:
    """The machine takes this accelerator, but not so many of it."""
    valid, sold = valid_counts(machine.name, accelerator), counts_sold(accelerator)
    if count in sold:
        why = f"needs {valid[0]}: each {accelerator} serves at most {_size(limits(accelerator)[0])}, {_has(machine)}"
    else:
        why = f"{accelerator} comes in {either(sold)} per machine"
    below, above = [n for n in valid if n < count][-1:], [n for n in valid if n > count][:1]
    more = "" if above else "; for more of them, ask for more replicas"
    return Advice(why, f"use {either(below + above)} ({machine.name} takes {either(valid)}){more}")


def none_at_all(machine: MachineType, accelerator: str, count: int) -> Advice:
    """The machine takes no number of this accelerator."""
    given = limits(accelerator)
    instead = nearest_hosts(machine, accelerator, count)
    if not given:
        why = f"{accelerator} is sold only on {either(sold_on(accelerator))}"
        return Advice(why, f"use {either(_with_counts(instead, accelerator))}, or another accelerator")
    most = given[-1]
    plain = given[0].times(most.count)
    lowered = "" if most == plain else f" (in every zone; {most.count} times one would be {plain.max_memory_gb:g} GB)"
    why = f"even {most.count}, the most there are, serve at most {_size(most)}{lowered}, and {_has(machine)}"
    others = [f"{either(valid_counts(machine.name, name))} {name}" for name in sold_with(machine.name)]
    kept = f", or keep {machine.name} with {either(others)}" if others else ""
    return Advice(why, f"use {either(_with_counts(instead, accelerator))}{kept}")


def not_the_built_in(machine: MachineType, accelerator: str, count: int) -> Advice:
    """The machine brings its own accelerators along and takes nothing else."""
    built_in = f"{machine.accelerator_count:g} {machine.accelerator}"
    why = f"{machine.name} has exactly {built_in} built in, and takes no others"
    others = [host for host in nearest_hosts(machine, accelerator, count) if host != machine.name]
    instead = f", or use {either(_with_counts(others, accelerator))}" if others else ""
    return Advice(why, f"ask for {built_in} or name no accelerator{instead}")


def not_on_legacy(machine: MachineType, accelerator: str, count: int) -> Advice:
    """Legacy machine types take no accelerators beside what their name stands for."""
    included = f"{machine.accelerator_count:g} {machine.accelerator}" if machine.accelerator else "no accelerator"
    why = f"{machine.name} is a legacy machine type: it stands for {included}, and none can be attached"
    equivalent = find_machine_type(machine.gce_equivalent)
    hosts = _with_counts(nearest_hosts(equivalent or machine, accelerator, count), accelerator)
    return Advice(why, f"name no accelerator, or use a Compute Engine machine type: {either(hosts)}")


def nearest_hosts(machine: MachineType, accelerator: str, count: int, *, limit: int = 2) -> list[str]:
    """The machine types that carry so many of the accelerator, or any at least, the most alike in size first."""
    hosts = [machine_types()[name] for name in sold_on(accelerator)]
    exact = [host for host in hosts if count in valid_counts(host.name, accelerator)]
    alike = sorted(
        exact or hosts, key=lambda host: (abs(host.vcpus - machine.vcpus), abs(host.memory_gb - machine.memory_gb))
    )
    return [host.name for host in alike[:limit]]


def similar_accelerators(name: str, *, limit: int = 2) -> list[str]:
    """The accelerators that can be had somewhere and come nearest in memory, rather more than less."""
    wanted = _memory_gb(name)
    on_offer = [other for other in sold_accelerators() if other != name and regions_with([other])]
    gpus = [other for other in on_offer if not accelerators()[other].is_tpu]
    return sorted(gpus, key=lambda other: (_memory_gb(other) < wanted, abs(_memory_gb(other) - wanted)))[:limit]


def _memory_gb(name: str) -> float:
    chip = accelerators()[name].chip
    return (chip.memory_gb if chip is not None else None) or 0.0


def _with_counts(hosts: list[str], accelerator: str) -> list[str]:
    return [f"{host} (with {either(valid_counts(host, accelerator))})" for host in hosts]


def _size(limit: Limit) -> str:
    return f"{limit.max_vcpus:g} vCPU and {limit.max_memory_gb:g} GB"


def _has(machine: MachineType) -> str:
    return f"{machine.name} has {machine.vcpus:g} vCPU and {machine.memory_gb:g} GB"
