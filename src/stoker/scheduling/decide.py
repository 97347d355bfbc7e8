"""One decision, made from nothing but the World: what a scheduler that has followed it all along would decide."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.job import Job
from stoker.core.node import Node
from stoker.core.spec import JobSpec
from stoker.core.world import World

from .base import Placer
from .free import Free
from .orders import Orders
from .plan import Plan
from .rules import Rules
from .scheduler import Scheduler


def decide(world: World, now: float, rules: Rules, *, hold: bool = False) -> Plan:
    """Who gets a place now, and why the rest waits. `hold`: nothing new is placed (an admin's pause)."""
    return Scheduler(rules, hold=hold).decide(world, now)


def least_usd_per_hour(job: Job, nodes: Iterable[Node], rules: Rules) -> float:
    """What ordered machines for a job cost by the hour in US dollars if nobody else is there; 0, where it needs none."""
    world = World(nodes={node.name: node for node in nodes if not node.node_pool})
    if ever_fits(job.spec, world.nodes.values(), rules.placer):
        return 0.0
    scheduler = Scheduler(rules)
    scheduler.decide(world, 0.0)
    return Orders(scheduler.state, world, 0.0, lambda moment: None).cheapest(job) or 0.0


def ever_fits(spec: JobSpec, nodes: Iterable[Node], placer: Placer) -> bool:
    """Whether the nodes could hold this job if nobody else held anything."""
    free = Free(nodes)
    if any(group.count > free.most_of(spec, group.machine) for group in spec.groups):
        return False  # without trying: a request may ask for a billion
    return placer.place("", spec, free) is not None
