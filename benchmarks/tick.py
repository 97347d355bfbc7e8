"""One decision in a large cluster, in this process: no engine, no store. For information until its budget is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

from stoker.core.changes import MoveAttempt, Open, Order, Submit
from stoker.core.ids import attempt_id
from stoker.core.job import Attempt, Job, Placement, Replica, Request
from stoker.core.node import Node
from stoker.core.spec import Group, JobSpec, Machine, Program
from stoker.core.states import AttemptState
from stoker.core.world import World, apply
from stoker.scheduling.decide import decide
from stoker.scheduling.due import due
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.plan import Plan
from stoker.scheduling.policies.fifo import Fifo

from .measure import Row

RUNS = 3
NODES = 10_000
QUEUED = (1_000, 10_000)
PLACED_AT_ONCE = 10
_GPUS = 8
_NOW = 1_000_000.0


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    size = f"{NODES:,} nodes, {NODES * _GPUS:,} GPUs"
    for waiting in QUEUED:
        full = a_world(NODES, waiting, held=NODES)
        for change in _decide(full).changes:
            apply(full, change)  # why each waits is written now: from here on nothing is news
        yield Row(
            what=f"decide and due: {size}, all held, {waiting:,} jobs wait",
            unit="ms",
            samples=[_ms(_decide_and_due, full) for _ in range(runs)],
        )
    empty = a_world(NODES, PLACED_AT_ONCE)
    yield Row(
        what=f"decide: {size}, all free, {PLACED_AT_ONCE} jobs placed",
        unit="ms",
        samples=[_ms(_decide, empty) for _ in range(runs)],
    )


def a_world(nodes: int, queued: int, *, held: int = 0) -> World:
    """Nodes of one kind, so many of them held whole by a running job each, and jobs that wait for one."""
    devices = tuple(map(str, range(_GPUS)))
    machine = Machine(vcpus=32, memory_gb=208, accelerator="T4", accelerator_milli=1000 * _GPUS)
    spec = JobSpec(
        program=Program(command=("true",)), groups=(Group(role="chief", count=1, machine=machine),), region="r"
    )
    world = World()
    for n in range(nodes):
        name = f"node-{n}"
        world.nodes[name] = Node(
            name=name, engine="fake", zone="z", accelerator="T4", devices=devices, vcpus=64.0, memory_gb=512.0
        )
    for n in range(held + queued):
        sent = Request(dialect="bench", body="{}")
        job = Job(id=f"bench/job_{n}", spec=spec, request=sent, owner="bench", submitted_at=_NOW - held - queued + n)
        apply(world, Submit(job=job))
    for job, name in zip(list(islice(world.jobs.values(), held)), world.nodes, strict=False):
        attempt = Attempt(
            id=attempt_id(job.id, 1),
            job=job.id,
            number=1,
            engine="fake",
            placements=(Placement(role="chief", index=0, node=name, devices=devices),),
            placed_at=_NOW,
            replicas=(Replica(role="chief", index=0),),
        )
        apply(world, Open(attempt=attempt))
        before = AttemptState.PLACED
        for after in (AttemptState.STARTING, AttemptState.RUNNING):
            apply(world, MoveAttempt(attempt=attempt.id, before=before, after=after, at=_NOW))
            before = after
    return world


def _decide(world: World) -> Plan:
    return decide(world, _NOW, Fifo(), BestFit())


def _decide_and_due(world: World) -> list[Order]:
    _decide(world)
    return due(world, _NOW)


def _ms(work: Callable[[World], object], world: World) -> float:
    begin = time.perf_counter()
    work(world)
    return 1000 * (time.perf_counter() - begin)
