"""Looks at a server: what is asked, one look after the other, and what happens while it is away."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from stoker.cli.top.source import Look, Poller, Source
from stoker.client.client import Client
from stoker.core.errors import Unavailable
from tests.cli.top.overviews import STEPS, an_overview


class Server:
    """Answers, if it is there; another one has taken its place when its address is another."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = "http://127.0.0.1:1"
        self.is_away = False
        self.steps: tuple[int, Any] = (200, STEPS)

    def connect(self) -> Client:
        if self.is_away:
            raise Unavailable("no server runs here")
        return Client(self.url, "token", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode().removeprefix("/stoker/v1/"))
        if self.is_away:
            raise httpx.ConnectError("refused")
        status, body = (200, an_overview()) if "overview" in self.asked[-1] else self.steps
        return httpx.Response(status, json=body)


def test_the_first_look_asks_for_the_last_minutes_and_others_do_not() -> None:
    server = Server()
    source = Source(server.connect)
    source.first()
    assert source.look(None).overview["version"] == "0.1.0"
    assert source.look(("p", "j")).steps == STEPS
    assert server.asked == [
        "overview?points=60",
        "overview?points=0",
        "overview?points=0",
        "projects/p/jobs/j/steps?attempt=0&points=120",
    ]


def test_a_job_that_is_gone_has_no_steps() -> None:
    server = Server()
    server.steps = (404, {"error": {"code": 404, "message": "no job p/j", "status": "NOT_FOUND"}})
    found = Source(server.connect).look(("p", "j"))
    assert found.overview is not None and found.steps is None and found.problem == ""


def test_a_server_that_is_away_is_looked_up_again() -> None:
    server = Server()
    source = Source(server.connect)
    source.first()
    server.is_away = True
    assert source.look(None).problem.startswith("the server at http://127.0.0.1:1 does not answer")
    assert source.look(None).problem == "no server runs here"
    server.is_away, server.url = False, "http://127.0.0.1:2"
    assert source.look(None).problem == "" and source.url == "http://127.0.0.1:2"


def test_an_answer_that_is_none_of_ours_is_a_problem_and_no_crash() -> None:
    server = Server()
    server.answer = lambda request: httpx.Response(200, text="hello")  # type: ignore[method-assign]
    assert "is no Stoker server" in Source(server.connect).look(None).problem


def test_without_a_server_the_first_look_is_an_error() -> None:
    server = Server()
    server.is_away = True
    with pytest.raises(Unavailable, match="no server runs here"):
        Source(server.connect).first()


def test_looks_never_overlap_and_a_question_is_asked_at_once() -> None:
    now, most, told = 0, 0, threading.Semaphore(0)
    asked: list[object] = []

    def look(job: object) -> Look:
        nonlocal now, most
        now += 1
        most = max(most, now)
        asked.append(job)
        now -= 1
        return Look(problem="x")

    poller = Poller(look, lambda _: told.release(), seconds=3600)
    poller.start()
    assert told.acquire(timeout=10)
    for n in range(5):
        poller.ask_about(("p", str(n)))
        assert told.acquire(timeout=10), "it did not wait for an hour"
    poller.ask_about(("p", "4"))
    poller.end()
    assert most == 1 and asked == [None, *(("p", str(n)) for n in range(5))]
