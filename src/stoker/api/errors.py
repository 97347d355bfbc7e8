"""Errors as HTTP: one table from code to status, one shape for every refusal (contract 0.1)."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stoker.core.errors import (
    AlreadyExists,
    BadSpec,
    NotFound,
    NotReady,
    StokerError,
    TooMany,
    Unavailable,
    Violation,
)
from stoker.runtime.errors import MAY_PASS

STATUS: Mapping[str, tuple[int, str]] = {
    "bad_spec": (400, "INVALID_ARGUMENT"),
    "not_ready": (400, "FAILED_PRECONDITION"),
    "unauthenticated": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "not_found": (404, "NOT_FOUND"),
    "already_exists": (409, "ALREADY_EXISTS"),
    "conflict": (409, "ABORTED"),
    "illegal_move": (409, "FAILED_PRECONDITION"),
    "length_required": (411, "INVALID_ARGUMENT"),
    "precondition_failed": (412, "FAILED_PRECONDITION"),
    "too_large": (413, "OUT_OF_RANGE"),
    "unsupported_type": (415, "INVALID_ARGUMENT"),
    "bad_range": (416, "OUT_OF_RANGE"),
    "too_many": (429, "RESOURCE_EXHAUSTED"),
    "engine_error": (500, "INTERNAL"),
    "internal": (500, "INTERNAL"),
    "unimplemented": (501, "UNIMPLEMENTED"),
    "unavailable": (503, "UNAVAILABLE"),
}
_BY_HTTP_STATUS = {404: "NOT_FOUND", 405: "UNIMPLEMENTED", 415: "INVALID_ARGUMENT", 421: "PERMISSION_DENIED"}
_log = logging.getLogger("stoker.api")


class AboutField(StokerError):
    """Another error, with the field of the request that it is about: `Field: job.job_id Error: …`."""

    def __init__(self, error: StokerError, field: str, fix: str) -> None:
        super().__init__(error.message, fix=error.fix or fix)
        self.code = error.code
        self.violations = (Violation(field, error.message),)


@contextmanager
def about(field: str, *, fix: str = "") -> Iterator[None]:
    """Say which field named what is not there, or is there already, and what to do."""
    try:
        yield
    except (NotFound, AlreadyExists) as error:
        raise AboutField(error, field, fix) from error


def error_response(error: StokerError) -> Response:
    """A refusal as the API shows it. `where` and `hint` stand beside the message, where foreign clients do not look."""
    status, name = STATUS[error.code]
    if isinstance(error, BadSpec | NotReady | AboutField):
        return _refused(status, name, error.violations, error.fix)
    response = _respond(status, name, error.message, [], error.fix)
    if isinstance(error, TooMany) and error.retry_after_seconds:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    return response


async def on_stoker_error(_: Request, error: Exception) -> Response:
    """What Stoker raised on purpose."""
    assert isinstance(error, StokerError)
    return error_response(error)


async def on_bad_parameter(_: Request, error: Exception) -> Response:
    """A parameter of the URL that is not what its route takes."""
    assert isinstance(error, RequestValidationError)
    return error_response(BadSpec([Violation(str(e["loc"][-1]), e["msg"]) for e in error.errors()]))


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the web framework raised: an unknown path, a wrong method. The v1 API knows the first only (contract, section 0)."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    status = 404 if error.status_code == 405 and path.startswith("/v1/") else error.status_code
    message = f"there is no {request.method} {path[:200]}" if status in (404, 405) else str(error.detail)
    response = _respond(status, _BY_HTTP_STATUS.get(status, "INVALID_ARGUMENT"), message, [], "")
    if status == 405 and error.headers:
        response.headers.update(error.headers)
    return response


async def on_disconnect(_: Request, __: Exception) -> Response:
    """The client went away in the middle of its request: nobody reads this, and nothing is wrong here."""
    return Response(status_code=499)


async def on_os_error(_: Request, error: Exception) -> Response:
    """A machine that has no room now: whoever asked may ask again. What else the system refuses is unexpected."""
    assert isinstance(error, OSError)
    if error.errno not in MAY_PASS:
        raise error
    _log.error("a request could not be served: %s", error)
    fix = "free what its machine lacks, such as disk space under $STOKER_HOME, and ask again"
    return error_response(Unavailable(f"the server cannot do this now: {error.strerror}", fix=fix))


async def on_unexpected_error(_: Request, error: Exception) -> Response:
    """What nobody expected: logged here in full, told in one line."""
    _log.error("an unexpected error", exc_info=error)
    return _respond(500, "INTERNAL", "an unexpected error in the server; its log has the details", [], "")


def _refused(status: int, name: str, violations: Sequence[Violation], hint: str) -> Response:
    """All violations stand in the details; the message names the first."""
    found = [{"field": v.field, "description": v.description} for v in violations]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": found}]
    return _respond(status, name, f"Field: {found[0]['field']} Error: {found[0]['description']}", details, hint)


def _respond(status: int, name: str, message: str, details: list[dict[str, Any]], hint: str) -> Response:
    body: dict[str, Any] = {"code": status, "message": message, "status": name}
    if details:
        body |= {"details": details, "where": details[0]["fieldViolations"][0]["field"]}
    if hint:
        body["hint"] = hint
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    # In ASCII: what is quoted from a bad request may be half a character, which UTF-8 cannot hold.
    return Response(json.dumps({"error": body}), status, headers, media_type="application/json")
