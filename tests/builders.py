"""Worlds and jobs in one line each, so that a test reads as a story."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.clock import ForwardClock, ManualClock
from stoker.control.commands import Commands
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.control.submission import Submission
from stoker.core.ids import attempt_id
from stoker.core.job import Attempt, Job, Placement, Replica, Request
from stoker.core.node import Node
from stoker.core.site import Site
from stoker.core.spec import Group, JobSpec, Limits, Machine, Program, Retry
from stoker.core.states import AttemptState, EndsWith, ReplicaState
from stoker.engines.fake import FakeEngine
from stoker.kinds.training import Training
from stoker.scheduling.pools import machines_of
from stoker.scheduling.rules import rules_of
from stoker.store.base import Store
from stoker.store.files import Files
from stoker.store.logs import Logs
from stoker.store.memory import MemoryStore


def a_machine(gpus: int = 0, *, gpu: str = "T4", vcpus: float = 1.0, memory_gb: float = 1.0) -> Machine:
    """A machine with so many GPUs."""
    return Machine(vcpus=vcpus, memory_gb=memory_gb, accelerator=gpu if gpus else "", accelerator_milli=1000 * gpus)


def a_spec(
    gpus: int = 0,
    *,
    workers: int = 0,
    ps: int = 0,
    priority: int = 0,
    pool: str = "",
    ends_with: EndsWith = EndsWith.PRIMARY,
    limits: Limits | None = None,
    retry: Retry | None = None,
    vcpus: float = 1.0,
    region: str = "us-central1",
    queue: str = "default",
    preemptible: bool = False,
    resumable: bool = False,
    milli: int | None = None,
    types: str = "T4",
) -> JobSpec:
    """A chief, workers like it, and parameter servers without GPUs."""
    machine = a_machine(gpus, vcpus=vcpus)
    if milli is not None:
        machine = replace(machine, accelerator=types if milli else "", accelerator_milli=milli)
    groups = [Group(role="chief", count=1, machine=machine)]
    if workers:
        groups.append(Group(role="worker", count=workers, machine=machine))
    if ps:
        groups.append(Group(role="ps", count=ps, machine=a_machine()))
    return JobSpec(
        program=Program(command=("true",)),
        groups=tuple(groups),
        region=region,
        priority=priority,
        pool=pool,
        ends_with=ends_with,
        limits=limits or Limits(),
        retry=retry or Retry(),
        queue=queue,
        preemptible=preemptible,
        resumable=resumable,
    )


def a_job(name: str = "j", *, at: float = 1_000_000.0, owner: str = "u", held_seconds: float = 0.0, **spec: Any) -> Job:
    """A queued job of project p."""
    sent = Request(dialect="test", body="{}")
    return Job(
        id=f"p/{name}", spec=a_spec(**spec), request=sent, owner=owner, submitted_at=at, held_seconds=held_seconds
    )


def an_attempt(job: Job, *, placed_at: float, node: str = "n0", number: int = 1) -> Attempt:
    """A running attempt of a job, all of it on one node."""
    groups = [(group, index) for group in job.spec.groups for index in range(group.count)]
    return Attempt(
        id=attempt_id(job.id, number),
        job=job.id,
        number=number,
        engine="fake",
        placements=tuple(
            Placement(
                role=group.role,
                index=index,
                node=node,
                devices=tuple(f"{n}" for n in range(group.machine.accelerators)),
            )
            for group, index in groups
        ),
        placed_at=placed_at,
        started_at=placed_at,
        replicas=tuple(Replica(role=group.role, index=index, seen=ReplicaState.UP) for group, index in groups),
        state=AttemptState.RUNNING,
    )


def a_node(name: str, gpus: int = 0, **changes: Any) -> Node:
    """A node with so many GPUs."""
    values: dict[str, Any] = {
        "engine": "fake",
        "zone": "z",
        "accelerator": "T4" if gpus else "",
        "devices": tuple(map(str, range(gpus))),
        "vcpus": 64.0,
        "memory_gb": 256.0,
    }
    return Node(name=name, **{**values, **changes})


def nodes(text: str, **changes: Any) -> list[Node]:
    """`"n0:8 n1:4 n2:0"`: nodes with 8, 4 and no GPUs."""
    return [a_node(name, int(gpus), **changes) for name, gpus in (part.split(":") for part in text.split())]


@dataclass
class House:
    """A control plane on a fake engine: submit, tick, look."""

    engine: FakeEngine
    clock: ManualClock
    store: Store
    loop: Loop
    commands: Commands
    logs: Logs
    submitted: int = field(default=0)
    made: int = field(default=0)  # machines of pools

    def submit(self, name: str = "j", *, project: str = "p", **spec: Any) -> str:
        """Submit a job; returns its id."""
        request = Request(dialect="test", body="{}")
        return self.commands.submit(Submission(project, name, a_spec(**spec), request=request, labels={}, owner="u")).id

    def tick(self, times: int = 1, *, seconds: float = 0.0) -> None:
        """Rounds of the loop, with time going on before each."""
        for _ in range(times):
            self.clock.advance(seconds)
            self.loop.settle_down()

    def come(self, *, most: int = 10_000) -> None:
        """Machines that are wanted are there, at most so many of each pool, and those that are not are gone."""
        pools = self.loop.rules.site.pools
        there: dict[str, list[str]] = {name: [] for name in pools}
        busy = {p.node for attempt in self.store.world().attempts.values() for p in attempt.placements}
        for node in self.engine.nodes():
            if node.node_pool:
                there[node.node_pool].append(node.name)
        for name, count in self.engine.wanted.items():
            fresh = machines_of(pools[name], range(len(there[name]), min(count, most)))
            self.made += len(fresh)
            self.engine.join(*(replace(n, name=f"{name}-{self.made - i}") for i, n in enumerate(fresh)))
            idle = [node for node in there[name] if node not in busy]
            self.engine.leave(*idle[: max(0, len(there[name]) - count)])
        self.tick()

    def job(self, name: str = "j") -> Job:
        """The job as it is written."""
        return self.store.job(f"p/{name}").job


def a_house(
    folder: Path,
    text: str = "n0:4",
    *,
    store: Store | None = None,
    clock: ManualClock | None = None,
    engine: FakeEngine | None = None,
    site: Site | None = None,
    made: int = 0,
    **node: Any,
) -> House:
    """A control plane on these nodes; on a store and an engine that were there before, as after a restart of the server."""
    clock = clock or ManualClock()
    engine = engine or FakeEngine(nodes(text, **node), clock)
    seen = ForwardClock(clock)
    store = store or MemoryStore(seen)
    seen.go_on_from(store.last_moment())
    logs = Logs(folder / "logs")
    files = Files(folder / "buckets", buckets={}, keep_buckets_here=True)
    rules = rules_of(site or Site())
    enact = Enact(
        engines={"fake": engine},
        kinds={"training": Training()},
        files=files,
        runtimes=Runtimes(default="python", by_version={}),
    )
    loop = Loop(store=store, logs=logs, engines={"fake": engine}, rules=rules, enact=enact, clock=seen, elastic=engine)
    commands = Commands(store=store, files=files, rules=rules, clock=seen, rehearsal_engine="fake")
    loop.tick()
    return House(engine, clock, store, loop, commands, logs, made=made)
