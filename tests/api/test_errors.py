"""Errors as HTTP."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from typing import Any

import pytest
from starlette.requests import Request

from stoker.api.errors import STATUS, AboutField, about, error_response, on_os_error, on_unexpected_error
from stoker.core import errors as e
from stoker.core.errors import StokerError, Violation


def every_error() -> list[type[StokerError]]:
    """The tree, from its root."""
    found, ask = [], [StokerError]
    while ask:
        kind = ask.pop()
        found.append(kind)
        ask += kind.__subclasses__()
    return found


def body(error: StokerError) -> dict[str, Any]:
    """What the client gets to see."""
    found: dict[str, Any] = json.loads(error_response(error).body)["error"]
    return found


def test_every_error_has_its_status() -> None:
    answered = [k for k in every_error() if k is not AboutField and not k.__module__.startswith("stoker.client")]
    assert {kind.code for kind in answered} <= set(STATUS)


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (e.NotFound("x"), 404, "NOT_FOUND"),
        (e.AlreadyExists("x"), 409, "ALREADY_EXISTS"),
        (e.Conflict("x"), 409, "ABORTED"),
        (e.Unauthenticated("x"), 401, "UNAUTHENTICATED"),
        (e.Forbidden("x"), 403, "PERMISSION_DENIED"),
        (e.TooLarge("x"), 413, "OUT_OF_RANGE"),
        (e.Unimplemented("x"), 501, "UNIMPLEMENTED"),
        (e.Unavailable("x"), 503, "UNAVAILABLE"),
        (e.EngineError("x"), 500, "INTERNAL"),
    ],
)
def test_the_shape(error: StokerError, status: int, name: str) -> None:
    assert error_response(error).status_code == status
    assert body(error) == {"code": status, "message": "x", "status": name}


def test_violations_stand_in_the_details_and_the_first_in_the_message() -> None:
    found = body(e.BadSpec([Violation("a", "is wrong"), Violation("b", "too")], fix="mend them"))
    assert (found["code"], found["status"], found["hint"]) == (400, "INVALID_ARGUMENT", "mend them")
    assert found["message"] == "Field: a Error: is wrong"
    assert found["details"][0]["fieldViolations"] == [
        {"field": "a", "description": "is wrong"},
        {"field": "b", "description": "too"},
    ]
    assert body(e.NotReady([Violation("a", "x")]))["status"] == "FAILED_PRECONDITION"


def test_what_is_not_there_can_be_about_a_field() -> None:
    with pytest.raises(StokerError) as raised, about("name", fix="look again"):
        raise e.NotFound("no job p/j")
    found = body(raised.value)
    assert (found["code"], found["message"], found["hint"]) == (404, "Field: name Error: no job p/j", "look again")


def test_other_errors_are_about_what_they_say_themselves() -> None:
    with pytest.raises(e.BadSpec), about("name"):
        raise e.BadSpec([Violation("a", "x")])


def test_half_a_character_can_be_quoted() -> None:
    assert body(e.BadSpec([Violation("\ud800", "\udfff")]))["details"][0]["fieldViolations"][0]["field"] == "\ud800"


def test_a_machine_without_room_is_unavailable_and_any_other_os_error_unexpected() -> None:
    request = Request({"type": "http", "headers": []})
    answer = asyncio.run(on_os_error(request, OSError(errno.ENOSPC, "No space left on device")))
    told = json.loads(bytes(answer.body))["error"]
    assert (answer.status_code, told["status"]) == (503, "UNAVAILABLE") and "No space left" in told["message"]
    with pytest.raises(PermissionError):
        asyncio.run(on_os_error(request, PermissionError(errno.EACCES, "Permission denied")))


def test_the_unexpected_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    request = Request({"type": "http", "headers": []})
    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(on_unexpected_error(request, RuntimeError("the secret of the database")))
    assert answer.status_code == 500
    assert b"secret" not in answer.body
    assert "the secret of the database" in caplog.text
