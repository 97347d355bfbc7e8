"""Why a job has no place, in words a user can act on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stoker.core.job import Job, Reason
from stoker.core.node import Node
from stoker.core.site import Queue
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec
from stoker.core.world import World

from .base import Placer
from .free import Free
from .pools import not_there_yet
from .rules import Rules

MOST_NAMED = 3

HELD = Reason(
    code="HELD", text="the admin has paused this server: nothing is started", action="restart it without --hold"
)


def backoff(job: Job) -> Reason:
    """It is tried again, and its time has not come."""
    elsewhere = f", not on {', '.join(job.avoid)} if it can be elsewhere" if job.avoid else ""
    return Reason(
        code="BACKOFF",
        text=f"it failed {job.failures} time(s) and is tried again shortly{elsewhere}. {job.message}".rstrip(),
        action="nothing to do; cancel it if the cause will not go away by itself",
    )


def no_room(spec: JobSpec, world: World) -> Reason:
    """It is its turn, but not enough is free."""
    closed = sum(_is_for(spec, node) and not world.takes_work(node) for node in world.nodes.values())
    besides = f"; {closed} node(s) of that kind take no work (stoker nodes)" if closed else ""
    besides += _slots([node for node in world.nodes.values() if _is_for(spec, node)])
    return Reason(
        code="NO_ROOM",
        text=f"needs {wanted(spec)}, and not enough is free now{besides}",
        action="starts when enough of it is free; fewer or smaller machines may start sooner (stoker why tells)",
    )


def no_such_nodes(spec: JobSpec) -> Reason:
    """It was not refused at submission, so they were there."""
    return Reason(
        code="NO_SUCH_NODES",
        text=f"the nodes that could hold {wanted(spec)} are gone",
        action="bring them back (stoker nodes shows what there is), or cancel the job",
    )


def impossible(spec: JobSpec, world: World, rules: Rules) -> Reason:
    """Why the nodes that take work could not hold it: the others are out of service, or gone."""
    placer = rules.placer
    there = [node for node in world.nodes.values() if node.pool == spec.pool]
    there += not_there_yet(rules.site, there) if not spec.pool else []
    if placer.place("", spec, Free(there)) is None:
        return no_such_nodes(spec)
    return _out_of_service(spec, world, there)


def _out_of_service(spec: JobSpec, world: World, nodes: Iterable[Node]) -> Reason:
    closed = sorted(node.name for node in nodes if not world.takes_work(node))
    more = f" and {len(closed) - MOST_NAMED} more" if len(closed) > MOST_NAMED else ""
    named = ", ".join(_closed(world, name) for name in closed[:MOST_NAMED])
    return Reason(
        code="OUT_OF_SERVICE",
        text=f"the nodes that could hold {wanted(spec)} are there, but these take no work: {named}{more}",
        action="starts when they do again: stoker nodes uncordon NAME for a cordoned one; one that is down has to come back",
    )


def _closed(world: World, name: str) -> str:
    """`n1 (cordoned: new driver)`, `n2 (DOWN)`."""
    record, node = world.records.get(name), world.nodes[name]
    if record is not None and record.cordon is not None:
        return f"{name} (cordoned: {record.cordon.why})"
    return f"{name} (leaving)" if node.leaving_at is not None else f"{name} ({node.state})"


def behind() -> Reason:
    """Somebody before it waits. Names nobody: who is next changes all the time, and every change of a reason is written."""
    return Reason(
        code="BEHIND",
        text="others that want the same kind of machine are before it in the queue",
        action="stoker queue shows them; a higher scheduling.priority goes before them",
    )


def reserved() -> Reason:
    """What is free is kept for one before it."""
    return Reason(
        code="RESERVED",
        text="what is free is kept for a job before it, which this one would delay",
        action="a job that is known to be shorter, or that is preemptible, may use it meanwhile",
    )


def making_room() -> Reason:
    """Others have been asked to stop for it."""
    return Reason(
        code="MAKING_ROOM",
        text="others are being stopped to make room for it",
        action="nothing to do: it starts when they have written their checkpoints",
    )


def provisioning(up: int, count: int, wanted: str, zone: str) -> Reason:
    """Machines are on their way for it."""
    return Reason(
        code="PROVISIONING",
        text=f"{up} of {count} machines are up; on order{f' in {zone}' if zone else ''}: {wanted}",
        action="nothing to do: it starts when they are up",
    )


def no_capacity(failed: Sequence[tuple[str, str]]) -> Reason:
    """The pools that are for it did not give what was ordered: each with what was said."""
    said = "; ".join(f"{pool}: {what}" for pool, what in failed[:MOST_NAMED])
    return Reason(
        code="NO_CAPACITY",
        text=f"machines that were ordered for it did not come ({said})",
        action="they are ordered again in a few minutes; at once with stoker nodes uncordon pool:NAME",
    )


def over_hourly_budget(project: str, most: float, held: float, more: float) -> Reason:
    """With its machines the project would spend too much at a time."""
    return Reason(
        code="BUDGET",
        text=f"its machines cost {more:.2f} USD an hour, and the project {project} holds {held:.2f} of {most:.2f}",
        action="starts when jobs of the project end; an admin can raise its budget in the site file",
    )


def over_monthly_budget(project: str, most: float, spent: float) -> Reason:
    """The project has spent what it may this month."""
    return Reason(
        code="BUDGET",
        text=f"the project {project} has spent {spent:.2f} of the {most:.2f} USD that it may this month on machines",
        action="machines are ordered again next month, or when an admin raises its budget in the site file",
    )


def over_quota(queue: Queue, resource: str, *, is_lent: bool = False) -> Reason:
    """The reason that its queue holds all that it may. `is_lent`: it does not, but what is its own is lent."""
    own = f"{queue.quotas[resource].nominal_milli / 1000:g}"
    if is_lent:
        return Reason(
            code="QUOTA",
            text=f"of the {own} {resource} of its own that the queue {queue.name} has, some are lent in {queue.cohort}",
            action="nothing to do: it is taken back as soon as those have run for the site's quantum, or end",
        )
    lent = f", and its cohort {queue.cohort} has no more to lend" if queue.cohort else ""
    return Reason(
        code="QUOTA",
        text=f"the queue {queue.name} holds as much {resource} as it may: {own} are its own{lent}",
        action="starts when a job of the queue ends; another queue may have room (stoker queue shows them)",
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
    has = f"This site has {have}{_takes(spec, nodes)}{_slots(nodes)}."
    return has + (f" It could hold {smaller}." if smaller else "")


def _slots(nodes: Sequence[Node]) -> str:
    """How many replicas one machine of these runs at a time, as far as that is known."""
    most = max((node.most_replicas for node in nodes), default=0)
    if not most:
        return ""
    them_all = len(nodes) > 1 and any(node.shares_machine for node in nodes)
    return f"; {'they are one machine, which runs' if them_all else 'a machine runs'} at most {most} replicas at a time"


def _takes(spec: JobSpec, nodes: list[Node]) -> str:
    """What its machine types are of that their names do not tell, where their memory may be why it does not fit."""
    machines = {group.machine.type: group.machine for group in spec.groups if group.machine.type}
    if not machines or not any(map(_is_memory_kept, nodes)):
        return ""
    return "; " + ", ".join(f"{name} takes {m.vcpus:g} vCPU and {m.memory_gb:g} GB" for name, m in machines.items())


def _fewer_workers(spec: JobSpec, nodes: list[Node], placer: Placer) -> str:
    """The most replicas that it could have beside its chief, taken from the largest groups first."""
    free = Free(nodes)
    there = {group.role: min(group.count, free.most_of(spec, group.machine)) for group in spec.groups}
    others = {role: count for role, count in there.items() if role != "chief"}

    def fits(total: int) -> bool:
        counts = {**there, **_cut(others, total)}
        smaller = replace(spec, groups=tuple(replace(g, count=counts[g.role]) for g in spec.groups if counts[g.role]))
        mark = free.checkpoint()
        found = placer.place("", smaller, free) is not None
        free.rollback(mark)
        return found

    asked, most = sum(group.count for group in spec.groups if group.role != "chief"), sum(others.values())
    most = min(most, asked - 1, free.slots.on_all(np.arange(len(free.nodes))) - there.get("chief", 0))
    if most < 0 or not fits(0):
        return ""
    if not fits(most):
        least, most = 0, most - 1
        while least < most:  # fits(least), and of what is above `most` nothing does
            middle = (least + most + 1) // 2
            least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return "the same job with " + ", ".join(f"{count} {role}(s)" for role, count in _cut(others, most).items())


def _cut(counts: Mapping[str, int], total: int) -> dict[str, int]:
    """So many of them all together: one after the other of whichever is the largest goes."""
    left, found = total, dict[str, int]()
    for place, role in enumerate(sorted(counts, key=lambda role: counts[role])):
        found[role] = min(counts[role], left // (len(counts) - place))
        left -= found[role]
    return {role: found[role] for role in counts}


def _is_for(spec: JobSpec, node: Node) -> bool:
    """Whether a node is of the pool and of an accelerator that a job asks for."""
    return node.pool == spec.pool and any(_has(node, group) for group in spec.groups)


def _has(node: Node, group: Group) -> bool:
    choices = group.machine.accelerator_choices
    return bool(node.devices) == bool(group.machine.accelerator_milli) and (not choices or node.accelerator in choices)


def _size(group: Group) -> str:
    machine = group.machine
    if machine.accelerator_milli:
        kind = "GPU" if machine.accelerator == ANY_ACCELERATOR else machine.accelerator.replace("|", " or ")
        return f"{machine.accelerator_milli / 1000:g} {kind}" + (f" on {machine.type}" if machine.type else "")
    return machine.type or f"{machine.vcpus:g} vCPU"


def _node_size(node: Node, count: int) -> str:
    size = f"{len(node.devices)} {node.accelerator}" if node.devices else f"{node.vcpus:g} vCPU"
    return f"{count} node(s) of {size}" + (f" and {_gigabytes(node):g} GB" if _is_memory_kept(node) else "")


def _is_memory_kept(node: Node) -> bool:
    """Whether no gang may have more than there is."""
    return bool(node.memory_gb) and not node.soft


def _gigabytes(node: Node) -> float:
    """Of its memory: no more than there is."""
    return math.floor(node.memory_gb * 10) / 10


def _counted(nodes: list[Node]) -> list[tuple[Node, int]]:
    kinds: dict[tuple[str, int, float, float], list[Node]] = {}
    for node in nodes:
        memory_gb = _gigabytes(node) if _is_memory_kept(node) else 0
        kinds.setdefault((node.accelerator, len(node.devices), node.vcpus, memory_gb), []).append(node)
    return [(same[0], len(same)) for same in kinds.values()]
