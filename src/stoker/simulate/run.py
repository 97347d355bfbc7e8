"""A trace through the control loop, in virtual time: the same loop, scheduler and store contract as a live server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.clock import ManualClock
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.core.changes import Change, Submit
from stoker.core.errors import StokerError
from stoker.core.ids import job_id
from stoker.core.job import Job, Request
from stoker.core.node import Node
from stoker.core.site import DEFAULT_QUEUE, Site
from stoker.core.spec import Group
from stoker.scheduling.decide import ever_fits
from stoker.scheduling.rules import rules_of
from stoker.store.base import Line
from stoker.store.files import Files
from stoker.store.memory import MemoryStore

from .cluster import ENGINE, Cutter
from .engine import NEVER, Costs, NoLines, SimulatedEngine, SimulatedKind
from .metrics import Run
from .trace import Trace, TraceJob

PROJECT = "trace"
_REQUEST = Request(dialect="trace", body="{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of a trace."""

    trace: Trace
    site: Site
    nodes: Sequence[Node]
    runs: Sequence[Run]  # of the jobs that have ended
    refused: Sequence[TraceJob]  # no node could ever hold them
    unfinished: Sequence[str]  # had not ended when nothing could happen any more
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
    costs: Costs = Costs(),
    resumable: bool = True,
    progress: Callable[[int], None] = lambda ended: None,
) -> Replay:
    """Run a trace on nodes under a site's rules. `progress` is told now and then how many jobs have been submitted."""
    rules = rules_of(site)
    cutter = Cutter.of(nodes, resumable=resumable)
    shapes: dict[tuple[object, ...], tuple[Group, ...]] = {}
    fits: dict[tuple[object, ...], bool] = {}
    jobs: list[Job] = []
    refused: list[TraceJob] = []
    for job in trace.jobs:
        key = (job.gpus_milli, job.accelerators, job.vcpus, job.memory_gb, job.nodes)
        groups = shapes.get(key)
        if groups is None:
            groups = shapes[key] = cutter.groups(job)
        row = _row(job, cutter, groups, site)
        if key not in fits:
            fits[key] = ever_fits(row.spec, nodes, rules.placer)
        if fits[key]:
            jobs.append(row)
        else:
            refused.append(job)
    clock = ManualClock(0.0)
    store = MemoryStore(clock)
    run_seconds = {job_id(PROJECT, job.name): job.run_seconds for job in trace.jobs}
    engine = SimulatedEngine(nodes, clock, run_seconds, costs)
    enact = Enact(
        engines={ENGINE: engine},
        kinds={"simulated": SimulatedKind()},
        files=Files(Path("/nonexistent"), buckets={}, keep_buckets_here=True),
        runtimes=Runtimes(default="", by_version={}),
    )
    loop = Loop(store=store, logs=NoLines(), engines={ENGINE: engine}, rules=rules, enact=enact, clock=clock)
    _drive(loop, store, engine, clock, jobs, progress)
    return _outcome(trace, site, nodes, store, refused)


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


def _row(job: TraceJob, cutter: Cutter, groups: tuple[Group, ...], site: Site) -> Job:
    queue = job.queue if job.queue in site.queues else DEFAULT_QUEUE
    return Job(
        id=job_id(PROJECT, job.name),
        spec=cutter.spec(job, groups, queue),
        request=_REQUEST,
        owner=job.user or job.queue or "trace",
        submitted_at=job.submitted_at,
        labels={"program": job.program} if job.program else {},
    )


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
        if row.ended_at is None or row.started_at is None:
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
    story = list(store.story())
    if refused and not runs:
        raise StokerError("no job of the trace fits these nodes")
    return Replay(trace=trace, site=site, nodes=nodes, runs=runs, refused=refused, unfinished=unfinished, story=story)
