"""What is refused at submission because this site could never run it, each with the nearest that it could (P8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.errors import NotReady, Violation
from stoker.core.images import StandIns, stand_in
from stoker.core.job import Job
from stoker.core.node import Node
from stoker.core.site import Queue
from stoker.core.spec import Group, JobSpec
from stoker.scheduling.decide import ever_fits, least_usd_per_hour
from stoker.scheduling.explain import nearest_shape, wanted
from stoker.scheduling.rules import Rules
from stoker.scheduling.usage import Usage, amounts_of, is_definite
from stoker.site.toml_tables import nearest
from stoker.store.files import Files


@dataclass(frozen=True, slots=True)
class _Limit:
    """What a queue may hold of a resource, which is less than what is asked for."""

    resource: str
    most_milli: float


def refuse(*found: NotReady | None) -> None:
    """Raise NotReady with everything that was found, so that nobody has to ask again for the next."""
    refusals = [one for one in found if one is not None]
    if refusals:
        violations = [violation for one in refusals for violation in one.violations]
        raise NotReady(violations, fix="; ".join(dict.fromkeys(one.fix for one in refusals if one.fix)))


def look_at_queue(spec: JobSpec, rules: Rules, field: str) -> NotReady | None:
    """What is wrong where the site does not have its queue."""
    queues = rules.site.queues
    if spec.queue in queues:
        return None
    problem = f"this site has no queue {spec.queue[:80]!r}; {nearest(spec.queue, queues)}"
    return NotReady([Violation(field, problem)], fix="stoker queue shows them; without one, it is the queue default")


def look_at_images(spec: JobSpec, images: StandIns, field: str) -> NotReady | None:
    """What is wrong with images for which nothing stands in."""
    problems = dict.fromkeys(filter(None, (_image_problem(group, images) for group in spec.groups)))
    if not problems:
        return None
    return NotReady(
        [Violation(field, problem) for problem in problems],
        fix="let an environment of this machine stand in for it (the setting `images`), or submit a Python package",
    )


def look_at_files(spec: JobSpec, files: Files, field: str) -> NotReady | None:
    """What is wrong with packages and sources that cannot be read."""
    missing = [uri for uri in (*spec.program.packages, spec.program.source) if uri and not files.exists(uri)]
    if not missing:
        return None
    return NotReady(
        [Violation(field, f"{uri} does not exist, or cannot be read by this server") for uri in missing],
        fix="upload it first (stoker jobs submit training --package-path does so), or correct the address",
    )


def look_at_folders(problem: str, field: str) -> NotReady | None:
    """What is wrong with folders that programs may not write to. `problem`: what the machine says of them; empty: they may."""
    return NotReady([Violation(field, problem)]) if problem else None


def look_at_capacity(spec: JobSpec, nodes: Sequence[Node], rules: Rules, field: str) -> NotReady | None:
    """What is wrong with what no node could ever hold."""
    if ever_fits(spec, nodes, rules.placer):
        return None
    found = nearest_shape(spec, nodes, rules.placer)
    return NotReady(
        [Violation(field, f"no node here could ever hold {wanted(spec)}. {found}")],
        fix="ask for what there is, declare nodes (stoker up --fake …), or run it as a rehearsal on virtual"
        " nodes made for it: stoker rehearse with the same arguments",
    )


def look_at_rehearsal(spec: JobSpec, most: int, field: str) -> NotReady | None:
    """What is wrong with a rehearsal of more replicas than its machine runs at a time. `most`: so many; 0: no limit."""
    if not most or spec.replicas <= most:
        return None
    problem = (
        f"{spec.replicas:,} replicas would start on this server's machine, which runs at most {most:,} at a time:"
        f" ask for at most {most:,} with the chief"
    )
    return NotReady(
        [Violation(field, problem)],
        fix="rehearse it with fewer workers; an admin can allow more: stoker config set local_replicas NUMBER",
    )


def look_at_quota(spec: JobSpec, nodes: Sequence[Node], rules: Rules, field: str) -> NotReady | None:
    """What is wrong with what its queue could never hold, with all that it could borrow."""
    queues = rules.site.queues
    queue = queues.get(spec.queue)
    if queue is None or not queue.quotas:
        return None
    usage = Usage(rules.site, ())
    types = {node.accelerator for node in nodes if node.accelerator and not node.pool}
    limit = _limit(spec, queue, usage, types)
    if limit is None:
        return None
    others = [one.name for one in queues.values() if _limit(spec, one, usage, types) is None]
    hint = f"the queue {' or '.join(others)} could" if others else f"ask for at most {limit.most_milli / 1000:g}"
    most = f"of {limit.resource} it may hold {limit.most_milli / 1000:g}"
    borrowed = ", with all that it may borrow" if queue.cohort else ""
    problem = f"the queue {queue.name} could never hold {wanted(spec)}: {most}{borrowed}; {hint}"
    return NotReady(
        [Violation(field, problem)], fix="ask for less, or submit it to another queue (stoker queue shows them)"
    )


def look_at_budget(project: str, job: Job, nodes: Sequence[Node], rules: Rules, field: str) -> NotReady | None:
    """What is wrong with what costs more by the hour than its project may ever spend, where it has to be ordered."""
    most = rules.site.budget(project).usd_per_hour
    if most is None or not rules.site.pools:
        return None
    least = least_usd_per_hour(job, nodes, rules)
    if least <= most:
        return None
    problem = f"{wanted(job.spec)} costs {least:.2f} USD an hour, and the project {project} may spend {most:.2f}"
    return NotReady([Violation(field, problem)], fix="ask for less, or have an admin raise the budget (docs/site.md)")


def _limit(spec: JobSpec, queue: Queue, usage: Usage, types: Iterable[str]) -> _Limit | None:
    """The limit of the queue that the gang is beyond, whatever the devices are that it may choose from."""
    amounts = amounts_of(spec)
    for resource in sorted(queue.quotas):
        most = usage.most(queue, resource)
        if most is not None and amounts.get(resource, 0) > most:
            return _Limit(resource, most)
    free = [g for g in spec.groups if g.machine.accelerator_milli and not is_definite(g.machine.accelerator)]
    choices = {group.role: group.machine.accelerator_choices or tuple(types) for group in free}
    rooms = {name: _room(queue, usage, name, spec.region) for names in choices.values() for name in names}
    for group in free:
        most_of_one = max((rooms[name] for name in choices[group.role]), default=0)
        if group.machine.accelerator_milli > most_of_one:
            return _Limit(" or ".join(choices[group.role]), most_of_one)
    asked = sum(group.count * group.machine.accelerator_milli for group in free)
    if asked + sum(amounts.get(name, 0) for name in rooms) > sum(rooms.values()) and free:
        return _Limit(" and ".join(sorted(rooms)), sum(rooms.values()))
    return None


def _room(queue: Queue, usage: Usage, accelerator: str, region: str) -> float:
    """How much of an accelerator a queue could hold there."""
    found = (usage.most(queue, accelerator), usage.most(queue, f"{accelerator}@{region}"))
    return min((most for most in found if most is not None), default=math.inf)


def _image_problem(group: Group, images: Mapping[str, tuple[str, ...]]) -> str:
    """Why a group's image cannot be run; empty if it can, or there is none."""
    found = stand_in(images, group.image) if group.image else ()
    if found is None:
        return f"no engine here can run the image {group.image}"
    if len(found) == 1 and not (group.command or group.module):
        return f"what stands in for the image {group.image} has no entry point, and the job names no command"
    return ""
