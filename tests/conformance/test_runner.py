"""The runner itself: each expectation can fail, what is sent is what the file says, each verdict has its rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.client.client import Client

from .__main__ import main
from .examples import LEAST, POLL, STEP, a_file
from .expect import CHECKS, MISSING, Answer, find, mismatches
from .layout import Case, read_cases
from .run import Result, Runner, Verdict
from .target import Target

VIOLATION = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": "region"}]}
REFUSAL = {"error": {"code": 400, "message": "Field: region Error: none", "details": [{"@type": "other"}, VIOLATION]}}
JOB = {
    "jobId": "j",
    "n": 9,
    "x": 7.5,
    "ok": True,
    "list": [{"a": "1", "b": 2}, 3],
    "empty": {},
    "labels": {"a.b/c": "d"},
}

# Key of `expect` → what holds of the answer, and what does not.
HOLDS: list[tuple[str, Any, Any]] = [
    ("status", 200, JOB),
    ("status", [404, 200], JOB),
    ("body", {"jobId": "j", "list": [{"a": "1"}, 3.0000001], "empty": {}, "ok": True}, JOB),
    ("body", {}, JOB),
    ("match", {"jobId": ".", "n": r"\d", "list.0.a": "1", "ok": "true", "x": r"7\.5", "labels.a.b/c": "d"}, JOB),
    ("absent", ["nothing", "empty", "list.7", "jobId.x", "labels.a"], JOB),
    ("length", {"list": 2, "nothing": 0, "empty": 0}, JOB),
    ("differs", {"jobId": "k", "n": "9", "list": [{"a": "1"}, 3]}, JOB),
    ("violation", "region", REFUSAL),
    ("message_prefix", "Field: region Error: ", REFUSAL),
]
FAILS: list[tuple[str, Any, Any]] = [
    ("status", 201, JOB),
    ("status", [201, 400], JOB),
    ("body", {"jobId": "k"}, JOB),
    ("body", {"nothing": None}, JOB),
    ("body", {"n": "9"}, JOB),
    ("body", {"ok": 1}, JOB),
    ("body", {"n": 9.1}, JOB),
    ("body", {"list": [{"a": "1"}]}, JOB),
    ("body", {"list": [{"a": "2"}, 3]}, JOB),
    ("body", {"list": {}}, JOB),
    ("body", {}, MISSING),
    ("match", {"jobId": "x"}, JOB),
    ("match", {"n": ""}, JOB),
    ("match", {"x": "7"}, JOB),
    ("match", {"nothing": ".*"}, JOB),
    ("absent", ["jobId"], JOB),
    ("absent", ["list.1"], JOB),
    ("length", {"list": 1}, JOB),
    ("length", {"nothing": 1}, JOB),
    ("length", {"n": 1}, JOB),
    ("differs", {"jobId": "j"}, JOB),
    ("differs", {"n": 9.0}, JOB),
    ("differs", {"nothing": "x"}, JOB),
    ("violation", "regio", REFUSAL),
    ("violation", "region", {"error": {"details": [{**VIOLATION, "@type": "other"}]}}),
    ("violation", "region", {"error": "a text"}),
    ("message_prefix", "Field: job", REFUSAL),
    ("message_prefix", "", {"error": {}}),
]


def an_answer(body: Any, status: int = 200) -> Answer:
    return Answer(status, body, "")


@pytest.mark.parametrize(("key", "wanted", "body"), HOLDS)
def test_what_holds(key: str, wanted: Any, body: Any) -> None:
    assert mismatches({key: wanted}, an_answer(body)) == []


@pytest.mark.parametrize(("key", "wanted", "body"), FAILS)
def test_what_does_not_hold(key: str, wanted: Any, body: Any) -> None:
    (problem,) = mismatches({key: wanted}, an_answer(body))
    assert problem.startswith("expected ") and ", came " in problem


def test_every_expectation_is_shown_to_hold_and_to_fail() -> None:
    assert {key for key, _, _ in HOLDS} == {key for key, _, _ in FAILS} == set(CHECKS)


def test_all_that_is_wrong_is_told() -> None:
    expect = {"status": 400, "body": {"jobId": "k", "n": 8}, "absent": ["x"], "violation": "region"}
    assert len(mismatches(expect, an_answer(JOB))) == 5


def test_paths() -> None:
    assert find(JOB, "list.0.b") == 2 and find(JOB, "") == JOB
    assert [find(JOB, path) for path in ("list.2", "list.x", "jobId.0", "list.-1", ".", "n.0")] == [MISSING] * 6


# A run, against a server that is a function.

Serve = Callable[[httpx.Request], httpx.Response]


class Server(Target):
    """A server that is a function."""

    def __init__(self, serve: Serve) -> None:
        super().__init__("http://test")
        self._http = httpx.Client(base_url="http://test", transport=httpx.MockTransport(serve))
        self._client = Client("http://test", transport=httpx.MockTransport(lambda _: httpx.Response(200, json={})))


def run(folder: Path, serve: Serve, *, not_yet: dict[str, str] | None = None, **changes: Any) -> Result:
    """Run one case."""
    file = read_cases(a_file(folder, {**LEAST, **changes}, defaults={"headers": {"X-Default": "d"}}))
    server = Server(serve)
    return Runner(server, server, headers=file.headers, not_yet=not_yet or {}).run(file.cases[0])


def unimplemented(_: httpx.Request) -> httpx.Response:
    return httpx.Response(501, json={"error": {"code": 501, "status": "UNIMPLEMENTED"}})


def test_what_is_sent(tmp_path: Path) -> None:
    seen: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"etag": "é", "n": 5})

    result = run(
        tmp_path,
        serve,
        setup=[
            {
                "method": "POST",
                "path": "/a?x=1",
                "query": {"y": 2, "z": True},
                "body": None,
                "save": {"E": "etag", "N": "n"},
            },
            {
                "method": "PUT",
                "path": "/b",
                "raw_body": '{"${E}',
                "headers": {"x-default": "e", "Content-Type": "text/plain"},
            },
        ],
        path="/v1/projects/${P}/jobs/${E}:cancel",
        method="POST",
        headers={"X-DEFAULT": None},
        body={"packageUris": "${LIST:${PKG}:2}", "n": "${N}", "missing": "${MISSING_PKG}", "r": "${R}"},
    )
    assert result.verdict is Verdict.PASS
    assert [str(request.url) for request in seen[:2]] == ["http://test/a?x=1&y=2&z=true", "http://test/b"]
    assert [request.content for request in seen[:2]] == [b"null", '{"é'.encode()]
    assert [request.headers.get_list("X-Default") for request in seen] == [["d"], ["e"], []]
    assert seen[1].headers["Content-Type"] == "text/plain"
    body = json.loads(seen[2].content)
    assert (len(body["packageUris"]), body["n"], body["r"]) == (2, 5, "us-central1")
    assert body["packageUris"][0].startswith("gs://") and body["missing"].startswith("gs://")
    assert seen[2].url.path.endswith("/jobs/é:cancel")


def test_every_case_has_a_project_of_its_own(tmp_path: Path) -> None:
    seen: list[str] = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(200, json={})

    file = read_cases(a_file(tmp_path, LEAST, {**LEAST, "id": "b"}))
    runner = Runner(Server(serve), None, headers={}, not_yet={})
    assert [runner.run(case).verdict for case in file.cases] == [Verdict.PASS] * 2
    assert len(set(seen)) == 2


def test_a_setup_that_fails_is_told_and_ends_the_case(tmp_path: Path) -> None:
    asked: list[str] = []

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404, json={})

    for step in (STEP, {**STEP, "status": [200, 204]}, {**STEP, "status": 404, "expect_body": {"a": 1}}):
        asked.clear()
        result = run(tmp_path, serve, setup=[step], expect={"status": 404})
        assert (result.verdict, asked) == (Verdict.FAIL, ["/"])
        assert result.reasons[0] == "setup 1, GET /:"
    assert run(tmp_path, serve, setup=[{**STEP, "status": 404}], expect={"status": 404}).verdict is Verdict.PASS
    assert "came nothing" in str(run(tmp_path, serve, setup=[{**STEP, "status": 404, "save": {"A": "a"}}]).reasons)


def test_a_poll_asks_until_it_is_so(tmp_path: Path) -> None:
    states = iter(["QUEUED", "QUEUED", "DONE", "LATER"])

    def serve(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"state": next(states), "done": True})

    poll = {"poll": {**POLL, "until": {"state": ["DONE", "FAILED"], "done": [True]}}, "save": {"S": "state"}}
    assert run(tmp_path, serve, setup=[poll], expect={"body": {"state": "LATER"}}).verdict is Verdict.PASS


def test_a_poll_has_its_time(tmp_path: Path) -> None:
    def serve(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"state": "QUEUED", "done": 1})

    for until in ({"state": ["DONE"]}, {"done": [True]}):
        result = run(tmp_path, serve, setup=[{"poll": {**POLL, "until": until, "seconds": 0}}])
        assert result.verdict is Verdict.FAIL and "within 0 s" in str(result.reasons)


def test_an_answer_that_is_no_json_has_no_body(tmp_path: Path) -> None:
    def serve(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    assert run(tmp_path, serve).verdict is Verdict.PASS
    result = run(tmp_path, serve, expect={"body": {}})
    assert result.verdict is Verdict.FAIL and "<html>" in result.reasons[-1]


def test_a_server_that_does_not_answer_fails_the_case(tmp_path: Path) -> None:
    def serve(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    assert run(tmp_path, serve).reasons == ("ConnectError: refused",)


def test_what_is_not_served_yet(tmp_path: Path) -> None:
    listed = {"a": "not built"}
    result = run(tmp_path, unimplemented, not_yet=listed)
    assert (result.verdict, result.reasons) == (Verdict.NOT_YET, ("not built",))
    assert run(tmp_path, unimplemented, not_yet=listed, setup=[STEP]).verdict is Verdict.NOT_YET
    assert run(tmp_path, unimplemented, not_yet=listed, setup=[{"poll": POLL}]).verdict is Verdict.NOT_YET


@pytest.mark.parametrize("status", [200, 404, 501])
def test_what_is_on_the_list_and_served_is_to_be_taken_off(tmp_path: Path, status: int) -> None:
    result = run(tmp_path, lambda _: httpx.Response(status, json={}), not_yet={"a": "not built"})
    assert result.verdict is Verdict.FAIL and "take it off the list" in result.reasons[0]
    assert (status == 200) == result.reasons[0].startswith("it is served now")


def test_a_501_that_is_not_on_the_list_fails(tmp_path: Path) -> None:
    result = run(tmp_path, unimplemented)
    assert result.verdict is Verdict.FAIL and result.reasons[0].startswith("501 UNIMPLEMENTED")
    assert run(tmp_path, unimplemented, expect={"status": 501}).verdict is Verdict.PASS


def test_a_case_that_wants_a_server_at_rest_needs_one(tmp_path: Path) -> None:
    case: Case = read_cases(a_file(tmp_path, {**LEAST, "hold": True})).cases[0]
    runner = Runner(Server(unimplemented), None, headers={}, not_yet={})
    assert "--hold-url" in runner.run(case).reasons[0]


# The command line.


def test_only_knows_its_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(a_file(tmp_path, LEAST)), "--only", "a,b"]) == 2
    assert "no case b; there are a" in capsys.readouterr().err


def test_one_line_a_case_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Port 1 answers nobody: what fails here is the connection, the lines are the runner's."""
    path = a_file(tmp_path, LEAST, {**LEAST, "id": "b", "name": "another"})
    assert main([str(path), "--url", "http://127.0.0.1:1", "--only", "b"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "FAIL    b  another"
    assert said[1].startswith("          ConnectError")
    assert said[2].startswith("1 cases: 0 pass, 1 fail, 0 not yet, in ")
