"""The story of a job: all that happened to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.ids import job_id

from .answers import a_router, answer, declares
from .schemas.jobs import Story
from .schemas.words import MOST_POSITION, Name, Project, asks

LARGEST_PAGE = 10_000

router = a_router("jobs")


@router.get("/projects/{project}/jobs/{name}/story", responses=declares(Story, 400, 404))
def get_story(
    project: Project,
    name: Name,
    request: Request,
    after: Annotated[
        int, asks("Only what came after this: an `n`, or the `next` of another page.", 412, ge=0, le=MOST_POSITION)
    ] = 0,
    limit: Annotated[int, asks("At most so many; 1 to 10000, what is outside counts as the nearest.", 100)] = 1000,
) -> Response:
    """All that happened to a job, in order, in pages."""
    store, job, limit = services(request).store, job_id(project, name), max(1, min(limit, LARGEST_PAGE))
    store.job(job)
    lines = list(store.story(job, after=after, limit=limit))
    found: Story = {
        "story": [
            {"n": line.n, "at": line.at, "by": line.by, "what": type(line.change).__name__, "text": str(line.change)}
            for line in lines
        ],
        "next": lines[-1].n if len(lines) == limit else None,
    }
    return answer(found)
