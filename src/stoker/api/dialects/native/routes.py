"""All routes of `/stoker/v1`."""

from __future__ import annotations

from fastapi import APIRouter

from . import (
    alerts,
    artifacts,
    choose,
    costs,
    drill,
    dry_run,
    explain,
    files,
    findings,
    goodput,
    gpus,
    health,
    history,
    jobs,
    logs,
    metrics,
    nodes,
    overview,
    profile,
    queue,
    server,
    steps,
    story,
    submit,
    tokens,
)

_NOUNS = (
    server,
    tokens,
    alerts,
    nodes,
    gpus,
    health,
    overview,
    choose,
    costs,
    queue,
    submit,
    dry_run,
    drill,
    jobs,
    explain,
    history,
    story,
    metrics,
    steps,
    goodput,
    findings,
    profile,
    logs,
    artifacts,
    files,
)

# Put together as they are: `include_router` would make each of them anew, and the server starts with this.
router = APIRouter(routes=[route for noun in _NOUNS for route in noun.router.routes])
