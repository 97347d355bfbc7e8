"""A trace through the control loop, in virtual time: the same loop, scheduler and store contract as a live server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.clock import ManualClock
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.core.changes import Change, Submit
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import job_id
from stoker.core.job import Job, Request
from stoker.core.node import Node
from stoker.core.site import DEFAULT_QUEUE, Site
from stoker.core.spec import Group
from stoker.core.states import JobState
from stoker.scheduling.decide import ever_fits
from stoker.scheduling.history import History
from stoker.scheduling.rules import Rules, rules_of
from stoker.store.base import Line
from stoker.store.files import Files
from stoker.store.memory import MemoryStore

from .cluster import ENGINE, Cutter
from .engine import Costs, NoLines, SimulatedEngine, SimulatedKind
from .failures import NEVER, Failures, Outages
from .known import KnownRunTimes
from .metrics import Run
from .trace import Trace, TraceJob

PROJECT = "trace"
_REQUEST = Request(dialect="trace", body="{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is assumed of jobs and machines that a trace does not tell."""

    costs: Costs = field(default_factory=Costs)
    resumable_share: float = 1.0  # of the jobs go on from a checkpoint; the others begin anew
    failures: Failures | None = None  # None: no node ever fails
    knows_run_times: bool = False  # the scheduler is told by an oracle
    seed: int = 0  # of which jobs resume, and of the failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of a trace."""

    trace: Trace
    site: Site
    nodes: Sequence[Node]
    runs: Sequence[Run]  # of the jobs that have ended
    refused: Sequence[TraceJob]  # no node could ever hold them
    unfinished: Sequence[str]  # had not succeeded when nothing could happen any more, or were given up
    story: Sequence[Line] = field(repr=False)

    @property
    def decisions(self) -> Iterator[Change]:
        """What the scheduler decided, in order."""
        return (line.change for line in self.story if line.by == "loop")


def replay(
    trace: Trace,
    nodes: Sequence[Node],
    site: Site,
    *,
    model: Model = Model(),
    rules: Rules | None = None,
    progress: Callable[[int], None] = lambda submitted: None,
) -> Replay:
    """Run a trace on nodes under a site's rules. `progress` is told now and then how many jobs have been submitted.

    `rules`: made of that site, such as with a policy that is in no registry; None: as the site names them.
    """
    rules = rules or rules_of(site)
    cutter = Cutter.of(nodes)
    shapes: dict[tuple[object, ...], tuple[Group, ...]] = {}
    fits: dict[tuple[object, ...], bool] = {}
    jobs: list[Job] = []
    refused: list[TraceJob] = []
    for job in trace.jobs:
        key = (job.gpus_milli, job.accelerators, job.vcpus, job.memory_gb, job.nodes)
        groups = shapes.get(key)
        if groups is None:
            groups = shapes[key] = cutter.groups(job)
        row = _row(job, cutter, groups, site, model)
        if key not in fits:
            fits[key] = ever_fits(row.spec, nodes, rules.placer)
        if fits[key]:
            jobs.append(row)
        else:
            refused.append(job)
    if not jobs:
        raise BadSpec(
            [Violation("--nodes", f"none of the {len(refused):,} jobs of {trace.name} fits on these nodes")],
            fix="give larger nodes, or more of them, with the accelerators that the jobs ask for",
        )
    run_seconds = {job_id(PROJECT, job.name): job.run_seconds for job in trace.jobs}
    store = run_jobs(jobs, run_seconds, nodes, rules, model=model, progress=progress)
    return _outcome(trace, site, nodes, store, refused)


def run_jobs(
    jobs: Sequence[Job],
    run_seconds: Mapping[str, float],
    nodes: Sequence[Node],
    rules: Rules,
    *,
    model: Model = Model(),
    progress: Callable[[int], None] = lambda submitted: None,
) -> MemoryStore:
    """Run jobs of the kind "simulated", given in the order of their submission, on nodes of ENGINE. Returns all that happened."""
    clock = ManualClock(0.0)
    store = MemoryStore(clock)
    engine = SimulatedEngine(
        nodes,
        clock,
        {job.id: run_seconds[job.id] for job in jobs},
        model.costs,
        begin_anew=frozenset(job.id for job in jobs if not job.spec.resumable),
        outages=Outages(model.failures, (node.name for node in nodes), model.seed) if model.failures else None,
    )
    enact = Enact(
        engines={ENGINE: engine},
        kinds={"simulated": SimulatedKind()},
        files=Files(Path("/nonexistent"), buckets={}, keep_buckets_here=True),
        runtimes=Runtimes(default="", by_version={}),
    )
    loop = Loop(
        store=store,
        logs=NoLines(),
        engines={ENGINE: engine},
        rules=rules,
        enact=enact,
        clock=clock,
        histories=(lambda: KnownRunTimes(engine.left_seconds)) if model.knows_run_times else History,
    )
    _drive(loop, store, engine, clock, jobs, progress)
    return store


def _drive(
    loop: Loop,
    store: MemoryStore,
    engine: SimulatedEngine,
    clock: ManualClock,
    jobs: Sequence[Job],
    progress: Callable[[int], None],
) -> None:
    """From one moment at which something happens to the next, until nothing can happen any more."""
    loop.settle_down()
    submitted = 0
    while True:
        next_submission = jobs[submitted].submitted_at if submitted < len(jobs) else NEVER
        deadline = loop.next_deadline()
        happens = min(next_submission, engine.next_event())
        moment = min(happens, NEVER if deadline is None else deadline)
        if moment == NEVER or (happens == NEVER and moment > clock.now() + _PATIENCE_SECONDS):
            return
        clock.time = max(clock.time, moment)
        changes: list[Change] = []
        while submitted < len(jobs) and jobs[submitted].submitted_at <= clock.time:
            changes.append(Submit(job=jobs[submitted]))
            submitted += 1
        if changes:
            store.commit(changes, by="trace")
            progress(submitted)
        loop.settle_down()


_PATIENCE_SECONDS = 30 * 86400.0
"""With no submission and no end to come, deadlines alone are followed for so long."""


def _row(job: TraceJob, cutter: Cutter, groups: tuple[Group, ...], site: Site, model: Model) -> Job:
    queue = job.queue if job.queue in site.queues else DEFAULT_QUEUE
    return Job(
        id=job_id(PROJECT, job.name),
        spec=cutter.spec(job, groups, queue, resumable=_resumes(job, model)),
        request=_REQUEST,
        owner=job.user or job.queue or "trace",
        submitted_at=job.submitted_at,
        labels={"program": job.program} if job.program else {},
    )


def _resumes(job: TraceJob, model: Model) -> bool:
    """Drawn by the job's name, so that it is the same whatever other jobs there are."""
    if 0.0 < model.resumable_share < 1.0:
        return random.Random(f"{model.seed}/{job.name}").random() < model.resumable_share
    return model.resumable_share > 0.0


def _outcome(
    trace: Trace, site: Site, nodes: Sequence[Node], store: MemoryStore, refused: Sequence[TraceJob]
) -> Replay:
    runs: list[Run] = []
    unfinished: list[str] = []
    left_out = {job.name for job in refused}
    for job in trace.jobs:
        if job.name in left_out:
            continue
        row = store.row(job_id(PROJECT, job.name))
        if row.state is not JobState.SUCCEEDED or row.ended_at is None or row.started_at is None:
            unfinished.append(job.name)
            continue
        runs.append(
            Run(
                name=job.name,
                queue=job.queue,
                submitted_at=job.submitted_at,
                first_started_at=row.started_at,
                ended_at=row.ended_at,
                run_seconds=job.run_seconds,
                gpus_milli=job.gpus_milli,
                preemptions=row.preemptions,
                failures=row.failures,
            )
        )
    return Replay(
        trace=trace,
        site=site,
        nodes=nodes,
        runs=runs,
        refused=refused,
        unfinished=unfinished,
        story=list(store.story()),
    )
