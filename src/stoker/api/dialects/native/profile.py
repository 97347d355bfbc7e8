"""What the processes of a job do: asked for, and then told by its replicas one after the other."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.core.ids import job_id
from stoker.runtime.profile import MOST_SECONDS
from stoker.store.logs import PROFILE

from .answers import a_router, answer, declares
from .running import running
from .schemas.profile import Asked, HotLine, Process, Profile, ReplicaProfile
from .schemas.words import Name, Project, asks

Number = Annotated[str, Path(description="Its id, as the question was answered.", examples=["1795190400-3f2a1b"])]
_MOST_LINES = 200

router = a_router("jobs")


@router.post("/projects/{project}/jobs/{name}:profile", responses=declares(Asked, 400, 404, 409, 503))
def ask_for_profile(
    project: Project,
    name: Name,
    request: Request,
    seconds: Annotated[float, asks("For how long; 0: stacks alone.", 2.5, ge=0, le=MOST_SECONDS)] = 5.0,
) -> Response:
    """Have every replica of a running job looked into: its stacks now, and where its time goes for some seconds.

    Answers at once; what was found is at `…/profiles/ID`. 409 if it does not run.
    """
    site, job = services(request), job_id(project, name)
    attempt, names, engine = running(site, job)
    number = f"{int(time.time())}-{secrets.token_hex(3)}"
    engine.ask(attempt.id, {"id": number, "seconds": seconds})
    found: Asked = {"id": number, "replicas": names}
    return answer(found)


@router.get("/projects/{project}/jobs/{name}/profiles/{number}", responses=declares(Profile, 404))
def get_profile(project: Project, name: Name, number: Number, request: Request) -> Response:
    """What was found so far, replica by replica."""
    site, job = services(request), job_id(project, name)
    site.store.job(job)
    found: dict[str, list[dict[str, Any]]] = {}
    for replica, told in _told(site, job, number):
        found.setdefault(replica, []).append(told)
    profile: Profile = {"id": number, "replicas": [_replica(replica, told) for replica, told in sorted(found.items())]}
    return answer(profile)


def _told(site: Services, job: str, number: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of this profile, as far as they are what they should be: they have passed through the user's machine."""
    for line in site.logs.aside(job, PROFILE):
        try:
            told = json.loads(line.text)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and told.get("id") == number:
            yield line.replica, told


def _replica(replica: str, told: list[dict[str, Any]]) -> ReplicaProfile:
    processes: dict[int, Process] = {}
    for part in told:
        pid = part.get("process")
        if isinstance(pid, int):
            known = processes.setdefault(
                pid, {"process": pid, "command": "", "stack": [], "samples": 0, "hot_lines": []}
            )
            known["command"] = str(part.get("command", known["command"]))
            known["stack"] = _texts(part.get("stack")) or known["stack"]
            known["samples"] = part["samples"] if isinstance(part.get("samples"), int) else known["samples"]
            known["hot_lines"] = list(_hot(part.get("lines"))) or known["hot_lines"]
    last: dict[str, Any] = next((part for part in reversed(told) if part.get("is_over")), {})
    trace = last.get("trace")
    trace = trace if isinstance(trace, dict) else {}
    return {
        "replica": replica,
        "is_over": bool(last),
        "has_spy": bool(last.get("has_spy", True)),
        "processes": list(processes.values()),
        "trace": str(trace.get("path", "")),
        "trace_error": str(trace.get("error", "")),
    }


def _texts(value: object) -> list[str]:
    return [str(text) for text in value[:_MOST_LINES]] if isinstance(value, list) else []


def _hot(value: object) -> Iterator[HotLine]:
    for pair in value[:_MOST_LINES] if isinstance(value, list) else []:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], int):
            yield {"line": str(pair[0]), "samples": pair[1]}
