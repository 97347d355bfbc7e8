"""Why a job has no place, in words a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stoker.core.ids import split_job_id
from stoker.core.job import Job, Reason
from stoker.core.node import Node
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec
from stoker.core.world import World

from .base import Placer
from .free import Free


def why_no_place(job: Job, world: World, free: Free, placer: Placer) -> Reason:
    """Why the placer found no place for a job whose turn it is."""
    if (
        placer.place("", job.spec, Free.empty(world.nodes.values())) is None
    ):  # not refused at submission: they were there
        return Reason(
            code="NO_SUCH_NODES",
            text=f"the nodes that could hold {wanted(job.spec)} are gone",
            action="bring them back (stoker nodes shows what there is), or cancel the job",
        )
    holders = sorted({h for s in free.candidates(job.spec) for h in s.holders if h in world.jobs and h != job.id})
    names = ", ".join(split_job_id(h)[1] for h in holders[:3]) + (
        f" and {len(holders) - 3} more" if holders[3:] else ""
    )
    return Reason(
        code="NO_ROOM",
        text=f"needs {wanted(job.spec)}; " + (f"held by {names}" if names else "no node has that much free"),
        action="starts when enough of it is free; fewer or smaller machines may start sooner",
    )


def wanted(spec: JobSpec) -> str:
    """What a job asks for, in short: `10 × 4 NVIDIA_TESLA_T4 and 3 × 8 vCPU`."""
    sizes: dict[str, int] = {}
    for group in spec.groups:
        sizes[_size(group)] = sizes.get(_size(group), 0) + group.count
    return " and ".join(f"{count} × {size}" for size, count in sizes.items())


def nearest_shape(spec: JobSpec, nodes: Iterable[Node], placer: Placer) -> str:
    """The nearest thing to `spec` that the nodes could hold, as a sentence; empty if there is none."""
    nodes = [n for n in nodes if n.pool == spec.pool]
    have = ", ".join(_node_size(n, count) for n, count in _counted(nodes)) or "no nodes at all"
    smaller = _fewer_workers(spec, nodes, placer)
    return f"This site has {have}." + (f" It could hold {smaller}." if smaller else "")


def _fewer_workers(spec: JobSpec, nodes: list[Node], placer: Placer) -> str:
    groups = {group.role: group for group in spec.groups}
    while any(group.count > 0 for role, group in groups.items() if role != "chief"):
        biggest = max((g for r, g in groups.items() if r != "chief"), key=lambda g: g.count)
        groups[biggest.role] = replace(biggest, count=biggest.count - 1)
        smaller = replace(spec, groups=tuple(g for g in groups.values() if g.count))
        if placer.place("", smaller, Free.empty(nodes)) is not None:
            return "the same job with " + ", ".join(f"{g.count} {r}(s)" for r, g in groups.items() if r != "chief")
    return ""


def _size(group: Group) -> str:
    machine = group.machine
    if machine.accelerator_milli:
        kind = "GPU" if machine.accelerator == ANY_ACCELERATOR else machine.accelerator
        return f"{machine.accelerators} {kind}" + (f" on {machine.type}" if machine.type else "")
    return machine.type or f"{machine.vcpus:g} vCPU"


def _node_size(node: Node, count: int) -> str:
    size = f"{len(node.devices)} {node.accelerator}" if node.devices else f"{node.vcpus:g} vCPU"
    return f"{count} node(s) of {size}"


def _counted(nodes: list[Node]) -> list[tuple[Node, int]]:
    kinds: dict[tuple[str, int, float], list[Node]] = {}
    for node in nodes:
        kinds.setdefault((node.accelerator, len(node.devices), node.vcpus), []).append(node)
    return [(same[0], len(same)) for same in kinds.values()]
