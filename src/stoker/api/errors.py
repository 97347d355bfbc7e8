"""Errors as HTTP: one table from code to status, one shape for every refusal (contract 0.1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stoker.core.errors import BadSpec, NotReady, StokerError

STATUS: Mapping[str, tuple[int, str]] = {
    "bad_spec": (400, "INVALID_ARGUMENT"),
    "not_ready": (400, "FAILED_PRECONDITION"),
    "unauthenticated": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "not_found": (404, "NOT_FOUND"),
    "already_exists": (409, "ALREADY_EXISTS"),
    "conflict": (409, "ABORTED"),
    "illegal_move": (409, "FAILED_PRECONDITION"),
    "too_large": (413, "OUT_OF_RANGE"),
    "engine_error": (500, "INTERNAL"),
    "internal": (500, "INTERNAL"),
    "unimplemented": (501, "UNIMPLEMENTED"),
    "unavailable": (503, "UNAVAILABLE"),
}
_BY_HTTP_STATUS = {404: "NOT_FOUND", 405: "UNIMPLEMENTED", 415: "INVALID_ARGUMENT", 421: "PERMISSION_DENIED"}
_log = logging.getLogger("stoker.api")


def error_response(error: StokerError) -> JSONResponse:
    """A refusal as the API shows it. `fix` stands beside the message, where foreign clients do not look."""
    status, name = STATUS[error.code]
    message, details = error.message, []
    if isinstance(error, BadSpec | NotReady):
        violations = [{"field": v.field, "description": v.description} for v in error.violations]
        details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
        message = f"Field: {violations[0]['field']} Error: {violations[0]['description']}"
    return _respond(status, name, message, details, error.fix)


async def on_stoker_error(_: Request, error: Exception) -> Response:
    """What Stoker raised on purpose."""
    assert isinstance(error, StokerError)
    return error_response(error)


async def on_http_error(_: Request, error: Exception) -> Response:
    """What the web framework raised: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)
    name = _BY_HTTP_STATUS.get(error.status_code, "INVALID_ARGUMENT")
    return _respond(error.status_code, name, str(error.detail), [], "")


async def on_unexpected_error(_: Request, error: Exception) -> Response:
    """What nobody expected: logged here in full, told in one line."""
    _log.error("an unexpected error", exc_info=error)
    return _respond(500, "INTERNAL", "an unexpected error in the server; its log has the details", [], "")


def _respond(status: int, name: str, message: str, details: list[dict[str, Any]], fix: str) -> JSONResponse:
    body: dict[str, Any] = {"code": status, "message": message, "status": name}
    if details:
        body["details"] = details
    if fix:
        body["fix"] = fix
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": body}, status, headers)
