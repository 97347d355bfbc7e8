"""Whether machines are fit for work."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.control.commands import no_such_node
from stoker.insight.health import worst

from .answers import a_router, answer, declares
from .nodes import NodeName
from .schemas.health import NodeHealth

router = a_router("nodes")


@router.get("/nodes/{node}/health", responses=declares(NodeHealth, 404))
def get_node_health(node: NodeName, request: Request) -> Response:
    """The checks of a machine and of its GPUs, as they are now: driver, memory, errors, heat, bus, strangers.

    The server does the same every quarter of a minute, gives a machine that fails nothing new, and lets it back when it passes.
    """
    site = services(request)
    with site.live.look() as world:
        nodes = dict(world.nodes)
    if node not in nodes:
        raise no_such_node(node, nodes)
    found = site.checks_of(node)
    told: NodeHealth = {
        "node": node,
        "verdict": str(worst(found)),
        "checks": [
            {
                "name": check.name,
                "gpu": check.gpu,
                "verdict": str(check.verdict),
                "text": check.text,
                "action": check.action,
            }
            for check in found
        ],
    }
    return answer(told)
