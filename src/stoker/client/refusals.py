"""What a server refuses, as the error that it raised itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import httpx

from stoker.core import errors as e

_ERRORS: Mapping[str, type[e.StokerError]] = {
    "UNAUTHENTICATED": e.Unauthenticated,
    "PERMISSION_DENIED": e.Forbidden,
    "NOT_FOUND": e.NotFound,
    "ALREADY_EXISTS": e.AlreadyExists,
    "ABORTED": e.Conflict,
    "OUT_OF_RANGE": e.TooLarge,
    "UNIMPLEMENTED": e.Unimplemented,
    "UNAVAILABLE": e.Unavailable,
}
_REFUSED: Mapping[str, type[e.BadSpec] | type[e.NotReady]] = {
    "INVALID_ARGUMENT": e.BadSpec,
    "FAILED_PRECONDITION": e.NotReady,
}
_BY_HTTP_STATUS = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 413: "OUT_OF_RANGE"}


class NoStoker(e.Unavailable):
    """Who answers is somebody else; to ask again would not help."""


def raise_refusal(answer: httpx.Response) -> NoReturn:
    """Raise the error that the server told."""
    try:
        error = answer.json()["error"]
        status, message, fix = (
            str(error["status"]),
            str(error["message"]),
            str(error.get("hint") or error.get("fix", "")),
        )
        found = [v for detail in error.get("details", []) for v in detail.get("fieldViolations", [])]
        violations = [e.Violation(str(v["field"]), str(v["description"])) for v in found]
    except (ValueError, KeyError, TypeError, AttributeError):
        if answer.status_code == 503 and not answer.content:  # to HEAD nothing is said
            raise e.Unavailable("the server cannot do this now", fix="stoker status says why") from None
        status, message = _BY_HTTP_STATUS.get(answer.status_code, ""), f"the server answered {answer.status_code}"
        raise _ERRORS.get(status, e.Unavailable)("" if status else message) from None
    if violations and status in _REFUSED:
        raise _REFUSED[status](violations, fix=fix)
    raise _ERRORS.get(status, e.StokerError)(violations[0].description if violations else message, fix=fix)
