"""What else a job could ask for, and which of it would start it clearly sooner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stoker.core.job import Job
from stoker.core.spec import ANY_ACCELERATOR, Group, JobSpec
from stoker.core.world import World
from stoker.hardware.limits import valid_counts
from stoker.hardware.regions import find_region, zones_with
from stoker.insight.outlook import Start, WhatIf
from stoker.scheduling.decide import ever_fits
from stoker.scheduling.history import History

from .estimate import MOST_PLAYED, estimate
from .forecast import Budget
from .future import Now
from .run_times import Known

CLEARLY_SECONDS = 60.0
CLEARLY_SHARE = 0.2
"""Sooner by at least so much, and by at least this part of the wait."""

MOST_PRIORITY = 1000
_MOST_TRIED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Another way to ask for the same work."""

    change: str
    asked: str
    instead: str
    text: str
    spec: JobSpec


def what_ifs(now: Now, job: Job, start: Start, history: History, budget: Budget) -> tuple[WhatIf, ...]:
    """The other ways in which this job would start clearly sooner than `start`; the mildest of each kind of change."""
    if job.spec.pool or now.hold or start.is_by(now.at) or len(now.world.jobs) > MOST_PLAYED:
        return ()
    tried = list(variants(job.spec, now))[:_MOST_TRIED]
    found: dict[str, WhatIf] = {}
    for variant in tried:
        if variant.change in found:
            continue
        other = replace(job, spec=variant.spec)
        world = replace_job(now.world, other)
        known = Known.of(history, world.jobs.values()) if variant.change == "accelerators" else now.known
        then = estimate(replace(now, world=world, known=known), other, budget.part(1 / len(tried)))
        if _is_clearly_sooner(then, start, now.at):
            found[variant.change] = WhatIf(
                change=variant.change, asked=variant.asked, instead=variant.instead, text=variant.text, start=then
            )
    return tuple(found.values())


def variants(spec: JobSpec, now: Now) -> Iterator[Variant]:
    """What could be changed and is possible here: the mildest change of each kind first."""
    world = now.world
    if not spec.preemptible:
        yield Variant(
            change="preemptible",
            asked="no",
            instead="yes",
            text="as preemptible",
            spec=replace(spec, preemptible=True),
        )
    highest = max((other.spec.priority for other in world.jobs.values()), default=0)
    priority = min(MOST_PRIORITY, highest + 1)
    if priority > spec.priority and _heeds_priority(now, spec):
        yield Variant(
            change="priority",
            asked=str(spec.priority),
            instead=str(priority),
            text=f"with priority {priority}",
            spec=replace(spec, priority=priority),
        )
    nodes = list(world.nodes.values())
    for variant in (*_other_types(spec, world), *_fewer_workers(spec), *_fewer_accelerators(spec)):
        if ever_fits(variant.spec, nodes, now.rules.placer):
            yield variant


def replace_job(world: World, job: Job) -> World:
    """The World with this job in the place of the one of its id, or added."""
    return World(
        jobs={**world.jobs, job.id: job},
        attempts=dict(world.attempts),
        attempt_of=dict(world.attempt_of),
        nodes=dict(world.nodes),
        records=dict(world.records),
        position=world.position,
    )


def _is_clearly_sooner(then: Start, start: Start, now: float) -> bool:
    if then.at.middle is None:
        return False
    until = start.at.middle if start.at.middle is not None else start.played_until
    least = max(CLEARLY_SECONDS, CLEARLY_SHARE * (until - now))
    is_late = then.at.high is None and start.at.high is not None
    return until - then.at.middle >= least and not is_late


def _heeds_priority(now: Now, spec: JobSpec) -> bool:
    return (now.rules.queue(spec.queue).policy or now.rules.site.policy) == "priority"


def _fewer_workers(spec: JobSpec) -> Iterator[Variant]:
    workers = next((group.count for group in spec.groups if group.role == "worker"), 0)
    for count in _halves(workers):
        groups = tuple(replace(g, count=count) if g.role == "worker" else g for g in spec.groups)
        yield Variant(
            change="workers",
            asked=str(workers),
            instead=str(count),
            text=f"with {count} worker{'' if count == 1 else 's'} instead of {workers}"
            if count
            else f"without its {workers} worker{'' if workers == 1 else 's'}",
            spec=replace(spec, groups=tuple(group for group in groups if group.count)),
        )


def _fewer_accelerators(spec: JobSpec) -> Iterator[Variant]:
    most = max((group.machine.accelerators for group in spec.groups), default=0)
    for count in _halves(most):
        if count and all(_is_sold(group, group.machine.accelerator, min(count, _have(group))) for group in spec.groups):
            yield Variant(
                change="accelerators",
                asked=str(most),
                instead=str(count),
                text=f"with {count} GPU{'' if count == 1 else 's'} for each replica instead of {most}",
                spec=_with_machines(spec, most=count),
            )


def _other_types(spec: JobSpec, world: World) -> Iterator[Variant]:
    asked = spec.accelerator_types
    if not asked or ANY_ACCELERATOR in asked:
        return
    for name in sorted({node.accelerator for node in world.nodes.values() if node.accelerator and not node.pool}):
        is_there = find_region(spec.region) is None or bool(zones_with(spec.region, [name]))
        if name not in asked and is_there and all(_is_sold(group, name, _have(group)) for group in spec.groups):
            yield Variant(
                change="accelerator_type",
                asked="|".join(sorted(asked)),
                instead=name,
                text=f"on {name}",
                spec=_with_machines(spec, accelerator=name),
            )


def _with_machines(spec: JobSpec, *, accelerator: str = "", most: int = 0) -> JobSpec:
    groups = []
    for group in spec.groups:
        machine = group.machine
        if machine.accelerator_milli:
            milli = min(machine.accelerator_milli, 1000 * most) if most else machine.accelerator_milli
            machine = replace(machine, accelerator=accelerator or machine.accelerator, accelerator_milli=milli)
        groups.append(replace(group, machine=machine))
    return replace(spec, groups=tuple(groups))


def _have(group: Group) -> int:
    return group.machine.accelerators


def _is_sold(group: Group, accelerator: str, count: int) -> bool:
    """Whether the machine type takes so many; a shape of one's own takes any."""
    machine = group.machine
    if not count or not machine.type:
        return True
    return accelerator != ANY_ACCELERATOR and count in valid_counts(machine.type, accelerator)


def _halves(count: int) -> Iterator[int]:
    while count:
        count //= 2
        yield count
