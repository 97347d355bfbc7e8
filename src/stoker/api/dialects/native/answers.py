"""Answers: written as they are, described by what they are declared to be.

An answer is a TypedDict, which mypy has checked; it goes straight to JSON. FastAPI would check every field of it again at run
time, and prepare for that at every start of the server; the tests hold every answer against its declaration instead. What is
declared is only noted here: api/openapi.py describes it when somebody asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stoker.api.pools import Route

from .schemas.errors import ErrorAnswer

PREFIX = "/stoker/v1"
JSON = "application/json"
DECLARED: dict[str, Any] = {}
"""Every type that some route answers, by its name."""

_Answers = dict[int | str, dict[str, Any]]

_REFUSALS: Mapping[int, tuple[str, str, str]] = {
    400: (
        "INVALID_ARGUMENT",
        "Field: gpu_type Error: 't5' is not an accelerator",
        "INVALID_ARGUMENT: the request is wrong; FAILED_PRECONDITION: it cannot be carried out as things are.",
    ),
    401: ("UNAUTHENTICATED", "no token was shown", "No token, or not this server's."),
    403: ("PERMISSION_DENIED", "requests from other sites' pages are refused", "A request from another site's page."),
    404: ("NOT_FOUND", "no job local/train_3f2a", "No such thing."),
    409: ("ALREADY_EXISTS", "there is a job local/train_3f2a already", "The name is taken, for good."),
    413: ("OUT_OF_RANGE", "a request body may have 10 MiB", "The body is over a limit."),
    415: ("INVALID_ARGUMENT", "a body of the type 'text/plain'", "The body is not JSON by its type."),
    421: ("PERMISSION_DENIED", "this server does not answer to that name", "The Host header names somebody else."),
    429: ("RESOURCE_EXHAUSTED", "ada asks more than 200 times a second", "Too many at once: see Retry-After."),
    503: ("UNAVAILABLE", "the database cannot be written", "Something that is needed cannot be reached now."),
}
_HINTS = {400: "stoker accelerators lists them", 409: "choose another name"}


def answer(value: Mapping[str, Any]) -> Response:
    """JSON, in ASCII: what programs print may be half a character, which UTF-8 cannot hold."""
    return Response(json.dumps(value), media_type="application/json")


def a_router(tag: str) -> APIRouter:
    """The routes of one noun."""
    return APIRouter(route_class=Route, prefix=PREFIX, tags=[tag], responses=refused(401, 403, 421, 429))


def declares(kind: Any, *refusals: int) -> _Answers:
    """What a route answers, and the refusals of its own."""
    answers: _Answers = {200: {"description": _first_line(kind), "content": {JSON: {"schema": schema_of(kind)}}}}
    return answers | refused(*refusals)


def schema_of(*kinds: Any) -> dict[str, Any]:
    """The schema of a type, or of one of several: a reference, which api/openapi.py makes true."""
    DECLARED.update({kind.__name__: kind for kind in kinds})
    found = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in kinds]
    return found[0] if len(found) == 1 else {"anyOf": found}


def refused(*statuses: int) -> _Answers:
    """Refusals, each with when it comes and an example."""
    return {status: _refusal(status, *_REFUSALS[status]) for status in statuses}


def _refusal(status: int, name: str, message: str, when: str) -> dict[str, Any]:
    error: dict[str, Any] = {"code": status, "status": name, "message": message}
    if status in _HINTS:
        error["hint"] = _HINTS[status]
    if status == 400:
        found = {"field": "gpu_type", "description": "'t5' is not an accelerator"}
        details = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [found]}
        error |= {"where": "gpu_type", "details": [details]}
    content = {"schema": schema_of(ErrorAnswer), "example": {"error": error}}
    return {"description": when, "content": {JSON: content}}


def _first_line(what: Any) -> str:
    return str(what.__doc__).splitlines()[0]
