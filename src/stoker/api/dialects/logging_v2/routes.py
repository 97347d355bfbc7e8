"""Cloud Logging v2 over HTTP: entries.list (contract 3.6)."""

from __future__ import annotations

import asyncio
import json
import re
import time

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.field_mask import partial, read_mask
from stoker.api.notifier import wait
from stoker.api.pools import Route, in_thread
from stoker.api.services import access_of, read_json, services
from stoker.core.ids import split_job_id

from .pages import read_page
from .questions import read_question

LINGER_SECONDS = 20.0
"""So long a follower's question waits for lines, rather than be answered with none."""

_BREATH_SECONDS = 0.2  # between two looks: a busy server rings all the time
_FOLLOWER = re.compile(r"command/gcloud\.(?:alpha\.|beta\.)?ai[.-]")

router = APIRouter(route_class=Route, prefix="/v2")


@router.post("/entries:list")
async def list_entries(request: Request, fields: str = "") -> Response:
    """entries.list.

    gcloud's commands that follow a job (`stream-logs`, `--stream-logs`) hold back what is newer than five seconds, lest a line
    come late, and give up after two empty answers once the job has ended; with a short interval they would never show its
    last lines. Here no line comes late, so they get all there is, and an answer without lines only after a while.
    """
    mask, asked, site = read_mask(fields), read_question(await read_json(request)), services(request)
    for job in asked.jobs:
        access_of(request).check_project(split_job_id(job)[0])
    is_follower = _FOLLOWER.search(request.headers.get("user-agent", "")) is not None
    until = time.monotonic() + LINGER_SECONDS
    while True:
        ring = site.notifier.next()
        page = await in_thread(read_page, site, asked, to_the_end=is_follower)
        lingers = is_follower and page.may_grow and not page.answer and not site.notifier.closed
        if not lingers or time.monotonic() > until:
            return Response(await in_thread(json.dumps, partial(page.answer, mask)), media_type="application/json")
        await asyncio.sleep(_BREATH_SECONDS)
        await wait(ring, 1.0)
