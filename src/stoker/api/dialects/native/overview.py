"""What a site does at this moment, in one answer: machines, GPUs, and jobs that run. For who looks again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker import __version__
from stoker.api.services import Services, access_of, services
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.states import AttemptState
from stoker.core.world import World
from stoker.insight.holders import Holders, holders_of
from stoker.insight.training_steps import per_second, progress_of, share
from stoker.sampling.host import HOST_METRICS
from stoker.sampling.monitor import HOST, STALE_SECONDS, GpuNow
from stoker.sampling.series import MEAN
from stoker.store.base import Listed
from stoker.store.logs import STEPS

from .answers import a_router, answer, declares
from .describe import number
from .nodes import POOL, node_rows
from .schemas.overview import Overview, OverviewGpu, OverviewJob, OverviewNode
from .schemas.server import Node
from .schemas.words import asks

RECENT_SECONDS = 300.0
MOST_NODES, MOST_GPUS, MOST_JOBS = 500, 2000, 200
BUSY_PERCENT = 10.0
_MOST_SERIES = 200  # sources whose last minutes are looked up: each costs a millisecond
_MOST_STEPS = 50  # jobs whose steps are looked up
_STEPS_BYTES = 1 << 16  # of what a job has told of its steps, the end
_MOST_JOB_NODES = 8

_SHOWN = (
    "utilization_percent",
    "sm_active_ratio",
    "tensor_active_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "slowdown_celsius",
    "throttle_reasons",
)
_COUNTERS = tuple(metric.name for metric in HOST_METRICS if metric.is_counter)
_Sees = Callable[[str], bool]

router = a_router("nodes")


@router.get("/overview", responses=declares(Overview, 400))
def get_overview(
    request: Request,
    points: Annotated[
        int, asks("So many points of the last five minutes of each machine and GPU; 0: none.", 30, ge=0, le=60)
    ] = 0,
) -> Response:
    """What the site does at this moment: its machines, their GPUs, and the jobs that hold them.

    What a machine shows beside its GPUs is for admins alone; of jobs, those are told that the token opens.
    """
    site, access = services(request), access_of(request)
    nodes = [row for row in site.live.made(node_rows) if row["state"] != POOL]
    running, waiting = _live_jobs(site, access.sees)
    gpus = site.monitor.gpus()
    sampled = dict.fromkeys(now.node for now in gpus)
    nodes.sort(key=lambda row: (row["name"] not in sampled, row["virtual"], not row["jobs"]))
    shown = nodes[:MOST_NODES]
    recent = _Recent(site, points)
    found: Overview = {
        "at": site.commands.clock.now(),
        "version": __version__,
        "counts": {
            "nodes": len(nodes),
            "gpus": _count(nodes, gpus),
            "gpus_held": sum(row["accelerators"] - row["accelerators_free"] for row in nodes if row["state"] != "GONE"),
            "gpus_busy": sum(now.reading.values.get("utilization_percent", 0.0) >= BUSY_PERCENT for now in gpus),
            "jobs_running": len(running),
            "jobs_waiting": waiting,
        },
        "nodes": [_node(site, row, recent if access.is_admin else None) for row in shown],
        "gpus": _gpus(gpus, shown, site.live.made(holders_of), access.sees, recent),
        "jobs": _jobs(site, running),
    }
    return answer(found)


class _Recent:
    """The last minutes of some sources: the first ones that are asked for."""

    def __init__(self, site: Services, points: int) -> None:
        self._history, self._points = site.monitor.history, points
        self._now = site.commands.clock.now()
        self._left = _MOST_SERIES if points else 0

    def of(self, node: str, source: str, name: str) -> list[float | None]:
        """The means of one number."""
        if self._history is None or self._left <= 0:
            return []
        self._left -= 1
        since = self._now - RECENT_SECONDS
        found = self._history.points(node, source, since, self._now, names=(name,), count=self._points)
        means: list[float] = found.table[0, :, MEAN].tolist() if len(found.table) else []
        return [None if math.isnan(value) else float(f"{value:.4g}") for value in means]


def _count(nodes: Sequence[Node], gpus: Sequence[GpuNow]) -> int:
    """The GPUs that there are: those that jobs can have, and where more are sampled, those."""
    sampled: dict[str, int] = {}
    for now in gpus:
        sampled[now.node] = sampled.get(now.node, 0) + 1
    declared = {row["name"]: row["accelerators"] for row in nodes}
    return sum(max(declared.get(name, 0), sampled.get(name, 0)) for name in declared | sampled)


def _node(site: Services, row: Node, recent: _Recent | None) -> OverviewNode:
    """`recent`: None for who may not see what a machine shows."""
    return {
        "name": row["name"],
        "state": row["state"],
        "is_cordoned": row["cordon"] is not None,
        "virtual": row["virtual"],
        "accelerator": row["accelerator"],
        "accelerators": row["accelerators"],
        "accelerators_free": row["accelerators_free"],
        "values": {} if recent is None else _host(site, row["name"]),
        "recent": [] if recent is None or row["virtual"] else recent.of(row["name"], HOST, "cpu_percent"),
    }


def _host(site: Services, node: str) -> dict[str, float]:
    """What a machine shows now; of what only grows, its speed."""
    values = {name: value for name, value in site.monitor.host(node).items() if name not in _COUNTERS}
    newest = site.monitor.history.newest(node, HOST) if values and site.monitor.history is not None else None
    if newest is not None and newest[0] >= site.commands.clock.now() - STALE_SECONDS:
        values = {**values, **newest[1]}
    return values


def _gpus(
    gpus: Sequence[GpuNow], nodes: Sequence[Node], holders: Holders, sees: _Sees, recent: _Recent
) -> list[OverviewGpu]:
    known = {row["name"] for row in nodes}
    rows: list[OverviewGpu] = []
    for now in [now for now in gpus if now.node in known][:MOST_GPUS]:
        gpu, values = now.reading.device, now.reading.values
        held = [(*split_job_id(job), replica) for job, replica in holders.get(gpu.uuid, ())]
        rows.append(
            {
                "node": now.node,
                "index": gpu.index,
                "uuid": gpu.uuid,
                "product": gpu.product,
                "mig_profile": gpu.mig_profile,
                "values": {name: values[name] for name in _SHOWN if name in values},
                "fault": str(now.reading.fault) if now.reading.fault else None,
                "holders": [
                    {"project": project, "job": name, "replica": replica}
                    for project, name, replica in sorted(held)
                    if sees(project)
                ],
                "recent": recent.of(now.node, gpu.uuid, "utilization_percent"),
            }
        )
    return rows


def _live_jobs(site: Services, sees: _Sees) -> tuple[list[tuple[Job, Attempt]], int]:
    """The jobs that hold machines, the oldest first, and how many wait."""
    running, waiting = site.live.made(_sorted_jobs)
    mine = [(job, attempt) for job, attempt in running if sees(split_job_id(job.id)[0])]
    return mine, sum(count for project, count in waiting.items() if sees(project))


def _sorted_jobs(world: World) -> tuple[list[tuple[Job, Attempt]], Mapping[str, int]]:
    """Jobs that hold machines, and how many wait of each project."""
    found = [(world.jobs[attempt.job], attempt) for attempt in world.attempts.values()]
    waiting: dict[str, int] = {}
    for job in world.jobs.keys() - {attempt.job for attempt in world.attempts.values()}:
        project = split_job_id(job)[0]
        waiting[project] = waiting.get(project, 0) + 1
    return sorted(found, key=lambda one: (one[1].placed_at, one[0].id)), waiting


def _jobs(site: Services, running: Sequence[tuple[Job, Attempt]]) -> list[OverviewJob]:
    rows: list[OverviewJob] = []
    for n, (job, attempt) in enumerate(running[:MOST_JOBS]):
        project, name = split_job_id(job.id)
        row: OverviewJob = {
            "project": project,
            "name": name,
            "owner": job.owner,
            "state": str(Listed(n=0, job=job, attempt=attempt).state),
            "since": attempt.started_at or attempt.placed_at,
            "replicas": job.spec.replicas,
            "accelerators": number(job.spec.accelerator_milli),
            "nodes": list(dict.fromkeys(place.node for place in attempt.placements))[:_MOST_JOB_NODES],
            "step": None,
            "steps_per_second": None,
            "data_wait_share": None,
        }
        if n < _MOST_STEPS and attempt.state is AttemptState.RUNNING:
            _add_steps(row, site, attempt)
        rows.append(row)
    return rows


def _add_steps(row: OverviewJob, site: Services, attempt: Attempt) -> None:
    """How its first replica trains, and the most that any of them waits for data."""
    lines = site.logs.aside(attempt.job, STEPS, last_bytes=_STEPS_BYTES)
    training = progress_of((line.replica, line.text) for line in lines if line.attempt == attempt.id)
    if not training:
        return
    first = training[0].recent
    waits = [share(found.recent.waited, found.recent) for found in training]
    row["step"] = training[0].last.step
    row["steps_per_second"] = per_second(first.steps, first)
    row["data_wait_share"] = max((part for part in waits if part is not None), default=None)
