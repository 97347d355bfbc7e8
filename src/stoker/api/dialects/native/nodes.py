"""The nodes: the machines on which replicas can run, and whether they are given work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from stoker.api.pools import in_thread
from stoker.api.services import Services, access_of, read_json, services, user
from stoker.control.commands import no_such_node
from stoker.core.ids import split_job_id
from stoker.core.node import POOL_RECORD, Node
from stoker.core.world import World
from stoker.scheduling.free import Free

from .answers import a_router, answer, declares
from .asked import read_as, takes
from .schemas.requests import CordonRequest, DrainRequest
from .schemas.server import Node as NodeRow
from .schemas.server import Nodes

router = a_router("nodes")

NodeName = Annotated[str, Path(description="The node's name.", examples=["local-nvidia_tesla_t4"])]
GONE, POOL = "GONE", "POOL"
_Sees = Callable[[str], bool]  # whether who asks may see a project


@router.get("/nodes", responses=declares(Nodes))
def list_nodes(request: Request) -> Response:
    """The nodes, with what is free on them: the real ones first, then by name."""
    rows = [row for row in services(request).live.made(node_rows) if row["state"] != POOL]
    found: Nodes = {"nodes": _seen_by(access_of(request).sees, rows)}
    return answer(found)


@router.get("/nodes/{node}", responses=declares(NodeRow, 404))
def get_node(node: NodeName, request: Request) -> Response:
    """One node, with what it was to blame for."""
    return answer(_row_of(services(request), node, access_of(request).sees))


@router.post(
    "/nodes/{node}:cordon",
    responses=declares(NodeRow, 400, 404, 413, 415, 503),
    openapi_extra=takes(CordonRequest.model_json_schema(), {"why": "new driver"}, "Why."),
)
async def cordon_node(node: NodeName, request: Request) -> Response:
    """Give a node nothing new. What runs there runs on. It lasts until the node is uncordoned, whoever restarts."""
    asked = read_as(CordonRequest, await read_json(request))
    return await in_thread(_cordon, request, node, asked.why, None)


@router.post(
    "/nodes/{node}:drain",
    responses=declares(NodeRow, 400, 404, 413, 415, 503),
    openapi_extra=takes(
        DrainRequest.model_json_schema(), {"why": "maintenance", "within_seconds": 1800.0}, "Why, and by when."
    ),
)
async def drain_node(node: NodeName, request: Request) -> Response:
    """Cordon a node, and have it empty by a moment. Who is asked to stop goes on elsewhere; that costs no retry."""
    asked = read_as(DrainRequest, await read_json(request))
    return await in_thread(_cordon, request, node, asked.why, asked.within_seconds)


@router.post("/nodes/{node}:uncordon", responses=declares(NodeRow, 404, 503))
def uncordon_node(node: NodeName, request: Request) -> Response:
    """Give a node work again, and forgive what it was to blame for."""
    site = services(request)
    sees = access_of(request).sees
    row = _row_of(site, node, sees)
    site.commands.uncordon(node, owner=user(request))
    forgiven: NodeRow = {**row, "cordon": None, "faults": []}
    return answer(next((row for row in _seen_by(sees, site.live.made(node_rows)) if row["name"] == node), forgiven))


def _cordon(request: Request, node: str, why: str, within_seconds: float | None) -> Response:
    site = services(request)
    site.commands.cordon(node, owner=user(request), why=why, empty_in_seconds=within_seconds)
    return answer(_row_of(site, node, access_of(request).sees))


def _row_of(site: Services, name: str, sees: _Sees) -> NodeRow:
    rows = {row["name"]: row for row in _seen_by(sees, site.live.made(node_rows))}
    if name not in rows:
        raise no_such_node(name, rows)
    return rows[name]


def _seen_by(sees: _Sees, rows: Sequence[NodeRow]) -> list[NodeRow]:
    """The same, of the jobs only those that may be seen, by their names."""
    return [
        {
            **row,
            "jobs": [name for project, name in map(split_job_id, row["jobs"]) if sees(project)],
            "faults": [fault for fault in row["faults"] if sees(split_job_id(fault["job"])[0])],
        }
        for row in rows
    ]


def node_rows(world: World) -> list[NodeRow]:
    """What there is, and what is not there and yet cordoned."""
    records = world.records.values()
    cordoned = sorted(r.node for r in records if r.cordon is not None or r.node.startswith(POOL_RECORD))
    gone = [Node(name=name, engine="", vcpus=0.0) for name in cordoned if name not in world.nodes]
    there = sorted(world.nodes.values(), key=lambda node: (node.virtual, node.name))
    room = Free(there)
    for attempt in world.attempts.values():
        room.hold(world.jobs[attempt.job].spec, attempt)
    jobs = room.by_node()
    return [_row(node, room, jobs, world) for node in (*there, *gone)]


def _row(node: Node, room: Free, jobs: Mapping[int, Sequence[str]], world: World) -> NodeRow:
    place, record = room.index.get(node.name), world.records.get(node.name)
    cordon = None if record is None else record.cordon
    takes_work = place is not None and world.takes_work(node)
    return {
        "name": node.name,
        "engine": node.engine,
        "state": str(node.state) if place is not None else POOL if node.name.startswith(POOL_RECORD) else GONE,
        "takes_work": takes_work,
        "cordon": None
        if cordon is None
        else {"why": cordon.why, "by": cordon.by, "at": cordon.at, "empty_at": cordon.empty_at},
        "leaving_at": node.leaving_at,
        "lease_seconds": node.lease_seconds,
        "faults": [{"job": f.job, "at": f.at, "what": f.what} for f in (() if record is None else record.faults)],
        "region": node.region,
        "zone": node.zone,
        "machine_type": node.machine,
        "node_pool": node.node_pool,
        "spot": node.spot,
        "virtual": node.virtual,
        "accelerator": node.accelerator,
        "accelerators": len(node.devices),
        "accelerators_free": int(room.milli[place]) / 1000 if place is not None else 0,
        "vcpus": node.vcpus,
        "memory_gb": node.memory_gb,
        "soft": node.soft,
        "most_replicas": node.most_replicas,
        "shares_machine": node.shares_machine,
        "jobs": [] if place is None else list(jobs.get(place, ())),
    }
