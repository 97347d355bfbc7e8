"""The server itself: what it is and has, its settings, its end."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from stoker import __version__
from stoker.api.services import Services, services
from stoker.config import shown
from stoker.core.errors import NotFound
from stoker.core.ids import split_job_id
from stoker.settings import SETTINGS
from stoker.site.site_file import site_path

from .answers import a_router, answer, declares
from .schemas.server import Farewell, Settings, Status

router = a_router("server")


@router.get("/status", responses=declares(Status))
def get_status(request: Request) -> Response:
    """What this server is and has."""
    site = services(request)
    leader = site.store.leader()
    with site.live.look() as world:
        nodes, jobs, attempts = len(world.nodes), len(world.jobs), len(world.attempts)
    found: Status = {
        "version": __version__,
        "home": str(site.config.home),
        "leads": site.leads(),
        "leader": leader.who if leader else "",
        "engines": list(site.engines),
        "problems": site.problems(),
        "nodes": nodes,
        "jobs": {"live": jobs, "running": attempts},
        "isolation": {
            "level": site.isolation.level,
            "asked": site.isolation.asked,
            "by": site.isolation.by,
            "ended_by": site.isolation.ended_by,
            "limits": site.isolation.limits,
            "server": site.isolation.keeps_server,
            "next": site.isolation.next_level,
        },
        "hold": site.config["hold"],
        "site": str(site_path(site.config) or ""),
        "buckets": _buckets(site),
    }
    return answer(found)


@router.get("/settings", responses=declares(Settings))
def list_settings(request: Request) -> Response:
    """Every setting of this server, its value, and where that comes from.

    The server has read them when it started. Of a secret it is only told that it is set.
    """
    values = services(request).config.values
    found: Settings = {
        "settings": [
            {
                "name": setting.name,
                "value": shown(setting.name, values[setting.name].value),
                "source": values[setting.name].source,
                "help": setting.help,
            }
            for setting in SETTINGS
        ]
    }
    return answer(found)


@router.post("/shutdown", responses=declares(Farewell))
def shut_down(request: Request) -> Response:
    """End the server. Jobs that run go on, and are found again by the next server."""
    site = services(request)
    with site.live.look() as world:
        running = [split_job_id(attempt.job)[1] for attempt in world.attempts.values()]
    site.shut_down()
    found: Farewell = {"running": running}
    return answer(found)


def _buckets(site: Services) -> str:
    try:
        path = site.files.place("gs://some-bucket").path
    except NotFound:
        return "gs://BUCKET is open where the token names it"
    return f"gs://BUCKET is {path.rpartition('/')[0]}/BUCKET" if path else "gs:// is Google Cloud Storage"
