"""A steady tick in a large cluster, in this process: some jobs end, others get their places. No engine, no store."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from stoker.core.changes import Change, MoveAttempt, NodeSeen, Note, Open, Submit
from stoker.core.ids import attempt_id
from stoker.core.job import Attempt, Job, Placement, Replica, Request
from stoker.core.node import Node
from stoker.core.site import Backfill, Queue, Site
from stoker.core.spec import Group, JobSpec, Limits, Machine, Program
from stoker.core.states import AttemptState, ReplicaState
from stoker.core.world import World, apply
from stoker.scheduling.rules import rules_of
from stoker.scheduling.scheduler import Scheduler

from .measure import Row

RUNS = 3
NODES = 10_000
CURVE = ((1_000, 1_000), (2_500, 2_500), (5_000, 5_000), (10_000, 10_000))
ENDS_A_TICK = 10
QUEUES = 10
_GPUS = 8
_NOW = 1_000_000.0
_TICKS = 11


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    for nodes, waiting, seconds in curve(runs):
        yield Row(
            what=f"steady tick: {nodes:,} nodes, {nodes * _GPUS:,} GPUs, {waiting:,} jobs wait, {ENDS_A_TICK} end",
            unit="ms",
            samples=[1000 * seconds],
            budget=100 if nodes == NODES else None,
            moonshot=10 if nodes == NODES else None,
        )


def curve(ticks: int = _TICKS) -> Iterator[tuple[int, int, float]]:
    """Nodes, jobs that wait, and the median of so many ticks in seconds: all that follows until nothing more does."""
    for nodes, waiting in CURVE:
        cluster = Cluster(nodes, waiting)
        yield nodes, waiting, statistics.median(cluster.tick() for _ in range(ticks))


class Cluster:
    """A full cluster of nodes of eight GPUs, held by jobs of several sizes, with a queue."""

    def __init__(self, nodes: int, waiting: int) -> None:
        self._random = random.Random(1)
        self._count = 0
        self._now = _NOW
        self.world = World()
        queues = {f"q{n}": Queue(name=f"q{n}", weight=1.0 + n % 3) for n in range(QUEUES)}
        self.scheduler = Scheduler(rules_of(Site(queues=queues, policy="priority", backfill=Backfill.SKIP)))
        devices = tuple(map(str, range(_GPUS)))
        for n in range(nodes):
            name = f"node-{n:05d}"
            self._apply(
                NodeSeen(
                    node=Node(
                        name=name,
                        engine="e",
                        zone="z",
                        accelerator="V100",
                        devices=devices,
                        vcpus=96.0,
                        memory_gb=768.0,
                    )
                )
            )
            taken = 0
            while taken < _GPUS:
                job = self._submit(most=_GPUS - taken)
                gpus = job.spec.groups[0].machine.accelerators
                self._run(job, name, devices[taken : taken + gpus])
                taken += gpus
        for _ in range(waiting):
            self._submit(most=_GPUS)
        self._settle()

    def tick(self) -> float:
        """Some jobs end; what that takes until nothing more follows, in seconds."""
        self._now += 1.0
        for attempt in self._random.sample(sorted(self.world.attempts), ENDS_A_TICK):
            seen = ReplicaState.SUCCEEDED
            self._apply(Note(attempt=attempt, role="chief", index=0, seen=seen, at=self._now, exit_code=0))
        begin = time.perf_counter()
        placed = self._settle()
        seconds = time.perf_counter() - begin
        assert placed >= 1, "somebody gets what has become free"
        return seconds

    def _settle(self) -> int:
        placed = 0
        while True:
            settled = self.scheduler.settle(self.world, self._now)
            for change in settled:
                self._apply(change)
            decided = self.scheduler.decide(self.world, self._now).changes
            for change in decided:
                self._apply(change)
                placed += isinstance(change, Open)
            self.scheduler.due(self.world, self._now)
            if not settled and not decided:
                return placed

    def _submit(self, most: int) -> Job:
        """One more of a hundred shapes or so."""
        gpus = self._random.choice([size for size in (1, 1, 1, 2, 4, 8) if size <= most])
        vcpus = float(self._random.choice([1, 2, 3, 4, 6, 8]) * gpus)
        machine = Machine(vcpus=vcpus, memory_gb=8.0 * gpus, accelerator="V100", accelerator_milli=1000 * gpus)
        spec = JobSpec(
            program=Program(command=("true",)),
            groups=(Group(role="chief", count=1, machine=machine),),
            queue=f"q{self._random.randrange(QUEUES)}",
            priority=self._random.randrange(3),
            limits=Limits(running_seconds=1e9),
        )
        self._count += 1
        sent = Request(dialect="bench", body="{}")
        job = Job(id=f"bench/j{self._count}", spec=spec, request=sent, owner="u", submitted_at=_NOW - 1e6 + self._count)
        self._apply(Submit(job=job))
        return job

    def _run(self, job: Job, node: str, devices: tuple[str, ...]) -> None:
        """It holds these devices, and runs."""
        attempt = Attempt(
            id=attempt_id(job.id, 1),
            job=job.id,
            number=1,
            engine="e",
            placements=(Placement(role="chief", index=0, node=node, devices=devices),),
            placed_at=_NOW - 1.0,
            replicas=(Replica(role="chief", index=0, seen=ReplicaState.UP),),
        )
        self._apply(Open(attempt=attempt))
        before = AttemptState.PLACED
        for after in (AttemptState.STARTING, AttemptState.RUNNING):
            self._apply(MoveAttempt(attempt=attempt.id, before=before, after=after, at=_NOW - 1.0))
            before = after

    def _apply(self, change: Change) -> None:
        apply(self.world, change)
        self.scheduler.see(change)
