"""What the processes of a replica do, of real ones; and what a program may do to whoever looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.beat_files import TRACE_ANSWER, TRACE_REQUEST
from stoker.runtime.lines import Log
from stoker.runtime.profile import STREAM
from stoker.runtime.questions import Questions
from tests.conftest import wait_until

BUSY = "def burn():\n    while True: sum(range(1000))\nprint('begins', flush=True)\nburn()\n"


class Hand:
    """A program that runs, and who looks at it."""

    def __init__(self, folder: Path) -> None:
        (folder / "busy.py").write_text(BUSY)
        self.beat = folder / "beat"
        self.beat.mkdir()
        self.ask = folder / "ask.json"
        self.kept = folder / "log.jsonl"
        self.log = Log(str(self.kept), None)
        self.program = subprocess.Popen([sys.executable, str(folder / "busy.py")], stdout=subprocess.PIPE)
        assert self.program.stdout is not None and self.program.stdout.readline() == b"begins\n"
        self.questions = self.of([self.program.pid])

    def of(self, pids: list[int]) -> Questions:
        """Who looks at these processes."""
        return Questions(str(self.ask), str(self.beat), self.log, "worker-0", lambda: pids)

    def asks(self, **request: Any) -> list[dict[str, Any]]:
        """Ask, and wait for all that is found."""
        self.ask.write_text(json.dumps(request))

        def is_over() -> list[dict[str, Any]]:
            self.questions.look()
            found = self.told()
            return found if found and found[-1].get("is_over") and found[-1]["id"] == request["id"] else []

        return wait_until(is_over)

    def told(self) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self.kept.read_text().splitlines()]
        return [json.loads(record["m"]) for record in records if record["s"] == STREAM]

    def close(self) -> None:
        self.program.kill()
        self.program.communicate()
        self.log.drain(1.0)


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    made = Hand(tmp_path)
    yield made
    made.close()


def test_stacks_and_where_the_time_goes(hand: Hand) -> None:
    stack, lines, over = hand.asks(id="1", seconds=1.0)
    assert stack["process"] == hand.program.pid and stack["command"].endswith("busy.py")
    assert any("burn (busy.py:2)" in line for line in stack["stack"])
    assert lines["samples"] > 10 and lines["lines"][0][0] == "burn (busy.py:2)"
    assert over == {"id": "1", "trace": {}, "has_spy": True, "is_over": True}
    assert hand.program.poll() is None, "it goes on"
    assert json.loads((hand.beat / TRACE_REQUEST).read_text()) == {"id": "1", "seconds": 1.0}


def test_it_is_answered_once_and_again_when_it_is_asked_again(hand: Hand) -> None:
    first = hand.asks(id="1", seconds=0.0)
    hand.questions.look()
    assert hand.told() == first
    again = hand.asks(id="2", seconds=0.0)
    assert [line["id"] for line in again[len(first) :]] == ["2", "2"]


def test_no_link_of_the_programs_is_followed(hand: Hand, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    secret.chmod(0o600)
    for name in (TRACE_REQUEST, f"{TRACE_REQUEST}.part", f".{TRACE_REQUEST}.part"):
        (hand.beat / name).symlink_to(secret)
    hand.asks(id="1", seconds=1.0)
    assert secret.read_text() == "a secret" and secret.stat().st_mode & 0o777 == 0o600
    assert not (hand.beat / TRACE_REQUEST).is_symlink(), "it was put in the link's place"


def test_who_only_wants_stacks_gets_no_trace(hand: Hand) -> None:
    hand.asks(id="1", seconds=0.0)
    assert not (hand.beat / TRACE_REQUEST).exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"signal": "HUP", "replicas": ["worker-0"]}',
        '{"signal": "KILL"}',
        '{"id": 3}',
        '{"id": "x", "seconds": "long"}',
    ],
)
def test_a_request_that_is_none(hand: Hand, text: str) -> None:
    hand.ask.write_text(text)
    hand.questions.look()
    assert hand.told() == []


@pytest.mark.parametrize("kind", ["link", "pipe", "garbage", "old", "whole"])
def test_the_answer_of_a_program_may_be_anything(hand: Hand, tmp_path: Path, kind: str) -> None:
    (hand.beat / "steps.jsonl").touch()  # it has steps, so it is waited for
    answer = hand.beat / TRACE_ANSWER
    if kind == "link":
        (tmp_path / "secret").write_text('{"id": "1", "path": "a secret"}')
        answer.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(answer)
    elif kind == "garbage":
        answer.write_text("[1, {")
    elif kind == "old":
        answer.write_text('{"id": "0", "path": "/old"}')
    else:
        answer.write_text(json.dumps({"id": "1", "path": "/the/trace" * 100}))
    if kind != "whole":
        hand.program.kill()  # nobody is waited for who is gone
        hand.program.wait()
        hand.questions = hand.of([])
    trace = hand.asks(id="1", seconds=1.0)[-1]["trace"]
    assert trace == ({"path": ("/the/trace" * 100)[:300]} if kind == "whole" else {})


def test_a_program_is_interrupted_if_it_is_meant(hand: Hand) -> None:
    hand.ask.write_text(json.dumps({"id": "1", "signal": "KILL", "replicas": ["chief-0"]}))
    hand.questions.look()
    assert hand.program.poll() is None, "that was another replica"
    hand.ask.write_text(json.dumps({"id": "2", "signal": "KILL", "replicas": ["chief-0", "worker-0"]}))
    hand.questions.look()
    assert hand.program.wait() == -9
    hand.questions.look()
    said = [json.loads(line) for line in hand.kept.read_text().splitlines()]
    assert [line["m"] for line in said if line["s"] == "service"] == ["SIGKILL, as was asked for"], "once"
    hand.ask.write_text(json.dumps({"id": "3", "signal": "TERM", "replicas": ["worker-0"]}))
    hand.questions.look()
