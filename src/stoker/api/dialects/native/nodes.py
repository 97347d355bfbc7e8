"""The nodes: the machines on which replicas can run."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.ids import split_job_id
from stoker.core.node import Node
from stoker.scheduling.free import Free

from .answers import a_router, answer, declares
from .schemas.server import Node as NodeRow
from .schemas.server import Nodes

router = a_router("nodes")


@router.get("/nodes", responses=declares(Nodes))
def list_nodes(request: Request) -> Response:
    """The nodes, with what is free on them: the real ones first, then by name."""
    with services(request).live.look() as world:
        free = Free.of(world)
        nodes = sorted(world.nodes.values(), key=lambda n: (n.virtual, n.name))
        found: Nodes = {"nodes": [_row(node, free) for node in nodes]}
    return answer(found)


def _row(node: Node, free: Free) -> NodeRow:
    place = free.index.get(node.name)  # None: a node that is not UP takes nothing
    return {
        "name": node.name,
        "engine": node.engine,
        "state": str(node.state),
        "region": node.region,
        "zone": node.zone,
        "machine_type": node.machine,
        "virtual": node.virtual,
        "accelerator": node.accelerator,
        "accelerators": len(node.devices),
        "accelerators_free": 0 if place is None else int(free.milli[place]) / 1000,
        "vcpus": node.vcpus,
        "memory_gb": node.memory_gb,
        "soft": node.soft,
        "jobs": [] if place is None else [split_job_id(job)[1] for job in free.names_on([place])],
    }
