"""Kueue's performance generator on Stoker's live queue: the real loop and database, in real time; only the jobs are simulated.

The load is that of kubernetes-sigs/kueue, test/performance/scheduler (default generator): five cohorts of six queues; in each
queue 350 small, 100 medium and 50 large workloads, which take 1, 5 and 20 of the queue's nominal quota of 20 and run for
0.2, 0.5 and 1 second. A queue's demand is 1,320 quota-seconds, so no scheduler ends before 66 s.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.clock import SystemClock
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.core.changes import Submit
from stoker.core.job import Job, Request
from stoker.core.node import Node
from stoker.core.site import Backfill, Preemption, Queue, Quota, Site, Victims
from stoker.core.spec import Group, JobSpec, Limits, Machine, Program
from stoker.core.states import JobState
from stoker.scheduling.rules import rules_of
from stoker.simulate.engine import Costs, NoLines, SimulatedEngine, SimulatedKind
from stoker.store.base import Store, Which
from stoker.store.files import Files
from stoker.store.sql import SqlStore

COHORTS, QUEUES_EACH = 5, 6
NOMINAL, BORROWING = 20, 100
PROJECT = "kueue"
_SUBMITTERS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """One class of workloads in one queue."""

    count: int
    every_seconds: float
    vcpus: int
    run_seconds: float
    priority: int


CLASSES: Mapping[str, Size] = {
    "small": Size(350, 0.1, 1, 0.2, 50),
    "medium": Size(100, 0.5, 5, 0.5, 100),
    "large": Size(50, 1.2, 20, 1.0, 200),
}


@dataclass(frozen=True, slots=True)
class Generated:
    """What came of it."""

    workloads: int
    seconds: float  # from the first submission to the last end
    admission_seconds: Mapping[str, float]  # by class: mean time from submission to the start


def generate() -> Generated:
    """Put the whole load on a live queue, and wait until all of it has ended."""
    site = Site(
        queues=_queues(),
        policy="priority",
        policy_options={"points_per_hour": 0.0},
        backfill=Backfill.SKIP,
        preemption=Preemption(victims=Victims.ANY, quantum_seconds=0.0, budget=1000),
    )
    nodes = [_node(n, 64.0) for n in range(COHORTS * QUEUES_EACH)]
    plan = sorted(
        (n * one.every_seconds, f"{size}_{queue.replace('-', '_')}_{n}", size, queue)
        for queue in site.queues
        if queue != "default"
        for size, one in CLASSES.items()
        for n in range(one.count)
    )
    specs = {(size, queue): _spec(CLASSES[size], queue) for size in CLASSES for queue in site.queues}
    runs = {f"{PROJECT}/{name}": CLASSES[size].run_seconds for _, name, size, _ in plan}
    with a_live_queue(site, nodes, runs) as (store, clock):
        begin = time.monotonic()

        def submit(part: int) -> None:
            for due, name, size, queue in plan[part::_SUBMITTERS]:
                time.sleep(max(0.0, begin + due - time.monotonic()))
                store.commit([Submit(job=_job(name, specs[size, queue], clock))], by="generator")

        with ThreadPoolExecutor(_SUBMITTERS) as pool:
            list(pool.map(submit, range(_SUBMITTERS)))
        _wait_for(store, len(plan))
        seconds = time.monotonic() - begin
        waits: dict[str, list[float]] = {size: [] for size in CLASSES}
        for job in store.ended(0.0, len(plan)):
            assert job.state is JobState.SUCCEEDED and job.started_at is not None, job
            waits[job.id.partition("/")[2].partition("_")[0]].append(job.started_at - job.submitted_at)
    return Generated(len(plan), seconds, {size: sum(found) / len(found) for size, found in waits.items()})


def gangs_a_second(gangs: int = 1000, replicas: int = 8) -> float:
    """How many gangs are admitted a second, each written before it starts; all wait when the clock begins."""
    nodes = [_node(n, 8.0) for n in range(gangs)]
    spec = JobSpec(
        kind="simulated",
        program=Program(command=("true",)),
        groups=(
            Group(role="chief", count=1, machine=Machine(vcpus=1.0)),
            Group(role="worker", count=replicas - 1, machine=Machine(vcpus=1.0)),
        ),
        limits=Limits(running_seconds=1e9),
    )
    runs = {f"{PROJECT}/g{n}": 1e6 for n in range(gangs)}
    site = Site(backfill=Backfill.SKIP)
    with a_live_queue(site, nodes, runs, hold=True) as (store, clock):
        store.commit([Submit(job=_job(f"g{n}", spec, clock)) for n in range(gangs)], by="generator")
        begin = time.monotonic()
        loop = _a_loop(site, nodes, runs, store, clock)
        loop.settle_down()
        seconds = time.monotonic() - begin
        started = sum(attempt.started_at is not None for attempt in store.world().attempts.values())
        assert started == gangs, f"{started} of {gangs} started"
    return gangs / seconds


@contextmanager
def a_live_queue(
    site: Site, nodes: list[Node], runs: Mapping[str, float], *, hold: bool = False
) -> Iterator[tuple[Store, SystemClock]]:
    """A loop in a thread of its own, on a database; its engine's jobs end by themselves."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(Path(folder) / "stoker.db", clock)
        if hold:
            yield store, clock
            store.close()
            return
        loop = _a_loop(site, nodes, runs, store, clock)
        engine = loop.engines["simulated"]
        assert isinstance(engine, SimulatedEngine)
        over = threading.Event()

        def ring() -> None:
            """A real engine's supervisors report their ends; these are reported here."""
            while not over.wait(0.005):
                if engine.next_event() <= clock.now():
                    loop.ring()

        bell = threading.Thread(target=ring)
        loop.start()
        bell.start()
        try:
            yield store, clock
        finally:
            over.set()
            bell.join()
            loop.stop()
            store.close()


def _a_loop(site: Site, nodes: list[Node], runs: Mapping[str, float], store: Store, clock: SystemClock) -> Loop:
    engine = SimulatedEngine(nodes, clock, runs, Costs(restart_seconds=0.0))
    files = Files(Path("/nonexistent"), buckets={}, keep_buckets_here=True)
    enact = Enact(
        engines={"simulated": engine},
        kinds={"simulated": SimulatedKind()},
        files=files,
        runtimes=Runtimes(default="", by_version={}),
    )
    return Loop(
        store=store, logs=NoLines(), engines={"simulated": engine}, rules=rules_of(site), enact=enact, clock=clock
    )


def _wait_for(store: Store, count: int, patience_seconds: float = 600.0) -> None:
    """Until so many jobs have ended."""
    until = time.monotonic() + patience_seconds
    live = frozenset({JobState.QUEUED, JobState.ACTIVE})
    while store.jobs(PROJECT, limit=1, which=Which(states=live)):
        if time.monotonic() > until:
            raise RuntimeError("the queue does not empty")
        time.sleep(0.05)


def _queues() -> dict[str, Queue]:
    quota = {"CPU": Quota(nominal_milli=1000 * NOMINAL, borrowing_milli=1000 * BORROWING)}
    queues = [
        Queue(name=f"c{cohort}-q{n}", cohort=f"c{cohort}", quotas=quota)
        for cohort in range(COHORTS)
        for n in range(QUEUES_EACH)
    ]
    return {queue.name: queue for queue in [*queues, Queue(name="default")]}


def _node(n: int, vcpus: float) -> Node:
    return Node(name=f"node-{n:04d}", engine="simulated", zone="z", vcpus=vcpus, memory_gb=64.0, virtual=True)


def _spec(one: Size, queue: str) -> JobSpec:
    return JobSpec(
        kind="simulated",
        program=Program(command=("true",)),
        groups=(Group(role="chief", count=1, machine=Machine(vcpus=float(one.vcpus))),),
        queue=queue,
        priority=one.priority,
        resumable=True,
        limits=Limits(running_seconds=1e9),
    )


def _job(name: str, spec: JobSpec, clock: SystemClock) -> Job:
    sent = Request(dialect="bench", body="{}")
    return Job(id=f"{PROJECT}/{name}", spec=spec, request=sent, owner="u", submitted_at=clock.now())
