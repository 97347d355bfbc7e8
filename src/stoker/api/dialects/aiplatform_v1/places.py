"""What a project has: its locations, and who its jobs run as (projects.locations, projects.getConfig)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from stoker.api.errors import about
from stoker.api.field_mask import partial, read_mask
from stoker.api.listing import read_page
from stoker.api.pools import Route
from stoker.api.services import check_project, user
from stoker.core.errors import NotFound, Unimplemented
from stoker.hardware.regions import Region, accelerators_in, regions

from .messages import ACCELERATORS

router = APIRouter(route_class=Route, prefix="/v1/projects")


@router.get("/{project}/locations")
def list_locations(project: str, pageSize: str = "20", pageToken: str = "", fields: str = "") -> Any:
    """locations.list: the regions, with the GPUs of their zones."""
    check_project(project)
    page, known = read_page(pageSize, pageToken), [r for r in regions().values() if r.aip_training]
    start = page.before or 0
    shown: dict[str, Any] = {"locations": [_location(project, r) for r in known[start : start + page.size]]}
    if start + page.size < len(known):
        shown["nextPageToken"] = str(start + page.size)
    return partial(shown, read_mask(fields))


@router.get("/{project}/locations/{location}")
def get_location(project: str, location: str, fields: str = "") -> Any:
    """locations.get."""
    check_project(project)
    with about("name"):
        if location not in regions():
            raise NotFound(f"no location {location[:80]!r}", fix="stoker regions lists them")
    return partial(_location(project, regions()[location]), read_mask(fields))


@router.get("/{project_verb}")
def get_config(project_verb: str, request: Request, fields: str = "") -> Any:
    """projects.getConfig: jobs run as the user who runs this server, whose name stands for a service account."""
    project, _, verb = project_verb.rpartition(":")
    if verb != "getConfig":
        raise NotFound(f"there is no GET {request.url.path[:200]}")
    check_project(project)
    number = project if project.isdecimal() else "0"
    shown = {"serviceAccount": f"{user(request)}@localhost", "serviceAccountProject": number, "config": {}}
    return partial(shown, read_mask(fields))


@router.post("/{project_verb}")
def predict(project_verb: str, request: Request) -> Any:
    """projects.predict and projects.explain."""
    if project_verb.rpartition(":")[2] in ("predict", "explain"):
        raise Unimplemented("online prediction is not served by this Stoker yet")
    raise NotFound(f"there is no POST {request.url.path[:200]}")


def _location(project: str, region: Region) -> dict[str, Any]:
    there = {name for zone in region.zones for name in accelerators_in(zone)}
    names = [name for name in ACCELERATORS if name in there and not name.startswith("TPU")]
    return {
        "name": f"projects/{project}/locations/{region.name}",
        "capabilities": [{"type": "TRAINING", "availableAccelerators": names}],
    }
