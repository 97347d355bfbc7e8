"""All routes of `/stoker/v1`."""

from __future__ import annotations

from fastapi import APIRouter

from . import (
    artifacts,
    choose,
    costs,
    drill,
    dry_run,
    explain,
    files,
    gpus,
    history,
    jobs,
    logs,
    metrics,
    nodes,
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
    nodes,
    gpus,
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
    profile,
    logs,
    artifacts,
    files,
)

# Put together as they are: `include_router` would make each of them anew, and the server starts with this.
router = APIRouter(routes=[route for noun in _NOUNS for route in noun.router.routes])
