"""GPUs and machines as they are sampled: now, and before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from starlette.responses import Response

from stoker.api.services import Services, access_of, services
from stoker.control.commands import no_such_node
from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.core.ids import job_id, split_job_id
from stoker.core.job import Attempt
from stoker.gpu.metrics import METRICS
from stoker.insight.holders import holders_of
from stoker.sampling.history import MOST_POINTS, History
from stoker.sampling.host import HOST_METRICS
from stoker.sampling.monitor import HOST
from stoker.sampling.series import GREATEST, LEAST, MEAN, SPEED, Points

from .answers import a_router, answer, declares
from .nodes import NodeName
from .schemas.samples import AllSamples, Gpu, Gpus, Samples
from .schemas.words import Name, Project, asks

router = a_router("nodes")

_KNOWN = {f"{metric.name}{SPEED if metric.is_counter else ''}" for metric in (*METRICS, *HOST_METRICS)}
_LONGEST_SECONDS = 366 * 86400.0

Metrics = Annotated[str, asks("Names of numbers, with commas between them; empty: all.", "utilization_percent")]
PointCount = Annotated[int, asks("At most so many points.", 240, ge=1, le=1000)]
Since = Annotated[
    float,
    asks(
        "From when on, in seconds since the epoch; a negative number: so many seconds ago.",
        -3600.0,
        allow_inf_nan=False,
    ),
]
Until = Annotated[float, asks("Until when, in seconds since the epoch; 0: now.", 0.0, ge=0, allow_inf_nan=False)]


@router.get("/gpus", responses=declares(Gpus))
def list_gpus(request: Request) -> Response:
    """The GPUs of all machines, as they were seen last: what they show, who holds them, who uses them."""
    site, sees = services(request), access_of(request).sees
    holders = site.live.made(holders_of)
    rows: list[Gpu] = []
    for now in site.monitor.gpus():
        gpu = now.reading.device
        rows.append(
            {
                "node": now.node,
                "index": gpu.index,
                "uuid": gpu.uuid,
                "product": gpu.product,
                "mig_profile": gpu.mig_profile,
                "at": now.at,
                "values": dict(now.reading.values),
                "fault": str(now.reading.fault) if now.reading.fault else None,
                "problem": now.reading.problem,
                "jobs": sorted(_seen_by(sees, holders.get(gpu.uuid, ()))),
                "processes": [
                    {"pid": found.pid, "memory_bytes": found.memory_bytes, "sm_percent": found.sm_percent}
                    for found in now.processes
                ],
            }
        )
    found: Gpus = {"gpus": rows}
    return answer(found)


@router.get("/nodes/{node}/samples", responses=declares(AllSamples, 400, 404))
def get_node_samples(
    node: NodeName,
    request: Request,
    metrics: Metrics = "",
    since: Since = -3600.0,
    until: Until = 0.0,
    points: PointCount = MOST_POINTS,
) -> Response:
    """What a machine and each of its GPUs showed: processors, memory, disks, network, and what the cards tell."""
    site = services(request)
    with site.live.look() as world:
        nodes = dict(world.nodes)
    if node not in nodes:
        raise no_such_node(node, nodes)
    history, names = _history(site), _names(metrics)
    begin, end = _window(since, until, site.commands.clock.now())
    sources = (HOST, *nodes[node].devices)
    found: AllSamples = {"samples": [_row(history, node, source, "", begin, end, names, points) for source in sources]}
    return answer(found)


@router.get("/projects/{project}/jobs/{name}/samples", responses=declares(AllSamples, 400, 404))
def get_job_samples(
    project: Project,
    name: Name,
    request: Request,
    attempt: Annotated[int, asks("Which attempt; 0: the newest.", 0, ge=0, le=1 << 31)] = 0,
    metrics: Metrics = "",
    points: PointCount = MOST_POINTS,
) -> Response:
    """What the GPUs of a job showed while it held them, and the machines of replicas that hold none."""
    site, job = services(request), job_id(project, name)
    found = _attempt(site.store.attempts(site.store.job(job).job.id), attempt, name)
    history, names = _history(site), _names(metrics)
    begin = found.placed_at
    end = max(begin + 1.0, site.commands.clock.now() if found.ended_at is None else found.ended_at)
    rows = [
        _row(history, place.node, source, f"{place.role}-{place.index}", begin, end, names, points)
        for place in found.placements
        for source in place.devices or (HOST,)
    ]
    told: AllSamples = {"samples": rows}
    return answer(told)


def _seen_by(sees: Callable[[str], bool], holders: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Of who holds a GPU, those whose project may be seen: JOB/REPLICA."""
    for job, replica in holders:
        project, name = split_job_id(job)
        if sees(project):
            yield f"{name}/{replica}"


def _attempt(attempts: Sequence[Attempt], number: int, name: str) -> Attempt:
    wanted = [found for found in attempts if number in (0, found.number)]
    if not wanted:
        what = f"attempt {number}" if number else "place yet"
        raise NotFound(f"{name} has had no {what}", fix=f"stoker jobs describe {name} shows its attempts")
    return max(wanted, key=lambda found: found.number)


def _history(site: Services) -> History:
    if site.monitor.history is None:
        raise NotFound("this site samples nothing", fix="set sample_seconds to more than 0 (docs/monitoring.md)")
    return site.monitor.history


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        near = get_close_matches(unknown[0], _KNOWN, 1)
        hint = f"did you mean {near[0]}?" if near else "docs/monitoring.md lists what is"
        raise BadSpec([Violation("metrics", f"{unknown[0][:80]!r} is not measured; {hint}")])
    return names


def _window(since: float, until: float, now: float) -> tuple[float, float]:
    end = until or now
    begin = end + since if since < 0 else since
    if not begin < end <= begin + _LONGEST_SECONDS:
        raise BadSpec([Violation("since", "a while begins before it ends, and is a year at most")])
    return begin, end


def _row(
    history: History, node: str, source: str, replica: str, begin: float, end: float, names: Sequence[str], count: int
) -> Samples:
    found = history.points(node, source, begin, end, names=names, count=count)
    return {
        "node": node,
        "source": source,
        "replica": replica,
        "start": found.start,
        "seconds": found.seconds,
        "series": [
            {
                "name": name,
                "mean": _told(found, row, MEAN),
                "least": _told(found, row, LEAST),
                "greatest": _told(found, row, GREATEST),
            }
            for row, name in enumerate(found.names)
        ],
    }


def _told(points: Points, row: int, figure: int) -> list[float | None]:
    values: NDArray[np.float32] = points.table[row, :, figure]
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values.tolist()]
