"""A job on the terminal."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stoker.cli.follow import Screen, after, held, replica_named
from stoker.core.errors import NotFound


def state(name: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """A state of the stream."""
    return {"kind": "state", "state": name, "attempt": 1, "replicas": replicas, **more}


def log(text: str, replica: str = "chief-0", stream: str = "out") -> dict[str, Any]:
    """A line of the stream."""
    return {"kind": "log", "replica": replica, "stream": stream, "text": text}


def end(name: str, message: str = "", **more: Any) -> dict[str, Any]:
    """The end of the stream."""
    times = {"submitted_at": 100.0, "started_at": 103.0, "ended_at": 165.0}
    return {"kind": "end", "state": name, "message": message, **times, **more}


def shown(capsys: pytest.CaptureFixture[str], *events: dict[str, Any], **how: Any) -> tuple[list[str], list[str]]:
    """What events look like: on stdout, on stderr."""
    screen = Screen("j", **how)
    for event in events:
        screen.show(event)
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


def test_one_replica_prints_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys, state("QUEUED"), state("RUNNING"), log("a"), log("b", stream="err"), end("SUCCEEDED"))
    assert out == ["a"]
    assert err == ["· j queued", "· j running", "b", "✓ j succeeded in 1m02s"]


def test_of_many_each_line_has_its_replicas_name(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(
        capsys, state("PREPARING", 13), log("a"), log("b", "worker-11"), log("installed x", "ps-0", "service")
    )
    assert out == ["chief-0   a", "worker-11 b"]
    assert err == ["· j starting 13 replicas", "· ps-0: installed x"]


def test_of_many_that_have_ended_too(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, state("SUCCEEDED", 2), log("a"), log("b", "worker-0"))
    assert out == ["chief-0   a", "worker-0  b"]


def test_one_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, state("RUNNING", 2), log("a"), log("b", "worker-0"), replica="worker-0")
    assert out == ["b"]


def test_why_it_waits_and_that_it_was_tried_before(capsys: pytest.CaptureFixture[str]) -> None:
    reason = {"code": "NO_ROOM", "text": "held by x", "action": "wait"}
    _, err = shown(
        capsys, state("QUEUED", reason=reason), state("QUEUED", reason=reason), state("RUNNING") | {"attempt": 2}
    )
    assert err == ["· j waits: held by x", "· j running (attempt 2)"]


def test_how_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = shown(capsys, end("FAILED", "It broke.\nTraceback …\nTermination reason: Error."))
    assert err == ["✗ j failed after 1m02s", "  It broke."], "the program's own words were shown already"
    _, err = shown(capsys, end("CANCELLED", "by u\nat noon", started_at=None))
    assert err == ["■ j cancelled after 1m05s", "  by u", "  at noon"]


def test_a_server_that_is_away_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = shown(capsys, state("RUNNING"), {"kind": "cut", "message": "refused"}, state("RUNNING"))
    assert err == ["· j running", "! refused; trying to reach the server again", "· j running"]


def test_quietly_only_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, state("RUNNING"), log("a"), end("FAILED", "x"), quiet=True) == (["a"], [])


def test_no_program_writes_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x1b]8;;http://e\x1b\\x\r\x9b1m"
    out, err = shown(
        capsys,
        log(evil),
        log(evil, "worker-0"),
        log(evil, stream="err"),
        log(evil, stream="service"),
        end("FAILED", evil),
    )
    assert all("\x1b" not in line and "\r" not in line and "\x9b" not in line for line in out + err)
    assert out == ["x�", "x�"]


DETAILS: dict[str, Any] = {
    "name": "j",
    "state": "SUCCEEDED",
    "job_dir": "gs://b/x",
    "job_dir_path": "/data/b/x",
    "machines": [{"role": "chief", "count": 1}, {"role": "worker", "count": 9}],
    "attempts": [],
}


def test_places_that_are_kept_are_told() -> None:
    soon = time.time() + 60
    rows = [
        {"name": "chief-0", "held_until": None, "quiet_since": None},
        {"name": "worker-0", "held_until": soon, "quiet_since": None},
        {"name": "worker-1", "held_until": None, "quiet_since": soon - 120},
    ]
    kept, quiet = held({**DETAILS, "attempts": [{"replicas": rows}]})
    assert "worker-0 is held after a failure until" in kept and "stoker jobs shell j --replica worker-0" in kept
    assert "worker-1 stands still" in quiet
    assert held(DETAILS) == []


def test_an_ended_job_says_where_its_files_are_and_what_to_try() -> None:
    assert after(DETAILS).splitlines() == [
        "  files of gs://b/x are in /data/b/x",
        "  Next:  stoker logs j   ·   stoker jobs describe j",
    ]
    assert "stoker why j" in after({**DETAILS, "state": "FAILED"})
    for nothing in ({"job_dir": "", "job_dir_path": ""}, {"job_dir_path": "gs://b/x"}):
        assert "files of" not in after({**DETAILS, **nothing})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("worker-3", "worker-3"),
        ("worker-replica-3", "worker-3"),
        ("chief-0", "chief-0"),
        ("master-0", "chief-0"),
        ("master-replica-0", "chief-0"),
    ],
)
def test_a_replica_by_any_of_its_names(text: str, name: str) -> None:
    assert replica_named(DETAILS, text) == name


@pytest.mark.parametrize("text", ["worker-9", "ps-0", "worker", "", "worker--1"])
def test_a_replica_that_is_none_is_told_those_there_are(text: str) -> None:
    with pytest.raises(NotFound) as refused:
        replica_named(DETAILS, text)
    assert refused.value.fix.startswith("there are chief-0, worker-0") and refused.value.fix.endswith("and 2 more")
