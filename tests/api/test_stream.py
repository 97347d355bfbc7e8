"""What happens to a job, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient
from starlette.types import Message as Event

from stoker.api.stream import Stream, end_event, follow, state_event
from stoker.app import Stoker
from stoker.core.errors import Unavailable
from stoker.core.job import Attempt, Placement, Reason, Replica
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.store.base import Listed
from tests.builders import a_job

STREAM = "/stoker/v1/projects/p/jobs/r/stream"


def run(http: TestClient) -> None:
    """A command that waits."""
    assert http.post("/stoker/v1/projects/p/jobs:run", json={"name": "r", "command": ["true"]}).status_code == 200


def events(http: TestClient, query: str = "") -> list[dict[str, Any]]:
    """The events of a stream that ends."""
    return [json.loads(line) for line in http.get(STREAM + query).text.splitlines() if line]


def printed(stoker: Stoker, *texts: str, first: int = 1) -> None:
    """Lines that the job has printed."""
    lines = [{"n": first + n, "t": 1.0, "s": "out", "m": text} for n, text in enumerate(texts)]
    stoker.services.logs.append("p/r.1", "chief-0", lines)


def test_what_there_is_without_waiting(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, "a", "b")
    state, *logs = events(http, "?follow=false")
    assert (state["kind"], state["state"], state["replicas"]) == ("state", "QUEUED", 1)
    assert [(e["kind"], e["replica"], e["text"]) for e in logs] == [("log", "chief-0", "a"), ("log", "chief-0", "b")]


def test_a_reader_goes_on_where_it_was(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, "a", "b")
    sequence = events(http, "?follow=false")[1]["sequence"]
    printed(stoker, "c", first=3)
    later = events(http, f"?follow=false&after={sequence}")
    assert [e["text"] for e in later if e["kind"] == "log"] == ["b", "c"]
    assert [e["kind"] for e in events(http, "?follow=false&after=99999999")] == ["state"]


def test_without_logs_there_are_none(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, "a")
    assert [e["kind"] for e in events(http, "?follow=false&logs=false")] == ["state"]


def test_it_tells_the_end_and_then_ends(http: TestClient, stoker: Stoker) -> None:
    run(http)
    with ThreadPoolExecutor() as threads:
        following = threads.submit(events, http)
        http.post("/v1/projects/p/jobs/r:cancel", json={})
        printed(stoker, "the last line")
        stoker.loop.settle_down()
        told = following.result()
    assert told[-1]["kind"] == "end"
    assert (told[-1]["state"], told[-1]["exit_code"]) == ("CANCELLED", 1)
    assert told[-1]["ended_at"] >= told[-1]["submitted_at"]
    assert "the last line" in [e.get("text") for e in told]
    assert [e["kind"] for e in events(http)] == ["state", "log", "end"]  # and again, for who comes late


def test_a_thousand_lines_and_more(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, *map(str, range(2500)))
    assert [e["text"] for e in events(http, "?follow=false") if e["kind"] == "log"] == list(map(str, range(2500)))


def told(stoker: Stoker) -> list[list[dict[str, Any]]]:
    """What the stream tells at once, piece by piece: a piece is what is in memory."""

    async def pieces() -> list[str]:
        return [piece async for piece in follow(stoker.services, "p/r", logs=True, after=0, to_end=False) if piece]

    return [[json.loads(line) for line in piece.splitlines()] for piece in asyncio.run(pieces())]


def test_of_many_lines_so_many_are_in_memory(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, *["x"] * 4500)
    assert [len(piece) for piece in told(stoker)] == [1, 2000, 2000, 500]


def test_of_long_lines_few_are_in_memory(http: TestClient, stoker: Stoker) -> None:
    run(http)
    printed(stoker, *["x" * 10_000] * 300)  # 3 MB, a megabyte at once
    _, *pieces = told(stoker)
    assert [len(piece) for piece in pieces] == [7, 14, 27, 53, 105, 94], "little at first, then more"
    assert all(len(event["text"]) == 10_000 for piece in pieces for event in piece)


def test_it_ends_with_the_server(http: TestClient, stoker: Stoker) -> None:
    run(http)

    async def story() -> list[str]:
        stoker.services.notifier.attach()
        stream = follow(stoker.services, "p/r", logs=True, after=0, to_end=True)
        first = await anext(stream)
        stoker.services.notifier.close()
        return [first, *[line async for line in stream]]

    assert [json.loads(line)["kind"] for line in asyncio.run(story())] == ["state"]


def an_attempt(*replicas: Replica, state: AttemptState = AttemptState.ENDED) -> Attempt:
    """An attempt with these replicas."""
    places = tuple(Placement(role=r.role, index=r.index, node="n0") for r in replicas)
    return Attempt(
        id="p/j.1",
        job="p/j",
        number=1,
        engine="fake",
        placements=places,
        placed_at=0.0,
        replicas=replicas,
        state=state,
        cause=Cause.REPLICA_FAILED,
    )


def failed(index: int, code: int | None, at: float) -> Replica:
    """A worker that failed."""
    return Replica(role="worker", index=index, seen=ReplicaState.FAILED, exit_code=code, at=at)


def test_a_failed_job_ends_with_the_code_of_the_replica_that_failed_first() -> None:
    job = replace(a_job(), state=JobState.FAILED)
    assert end_event(job, an_attempt(failed(0, 143, at=9.0), failed(1, 3, at=5.0)))["exit_code"] == 3
    assert end_event(job, an_attempt(failed(0, None, at=1.0)))["exit_code"] == 1
    assert end_event(job, None)["exit_code"] == 1
    assert end_event(replace(job, state=JobState.SUCCEEDED), None)["exit_code"] == 0


def test_a_waiting_job_says_why() -> None:
    job = replace(a_job(workers=2), waits=Reason(code="NO_ROOM", text="held by x", action="wait"))
    event = state_event(Listed(n=1, job=job, attempt=None))
    assert event["reason"] == {"code": "NO_ROOM", "text": "held by x", "action": "wait"}
    assert event["replicas"] == 3


def test_a_stream_that_cannot_go_on_is_cut_off_and_never_looks_whole() -> None:
    async def lines() -> AsyncIterator[str]:
        yield '{"kind": "log"}\n'
        raise Unavailable("the database cannot be read: it is away")

    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    asyncio.run(Stream(lines()).stream_response(send))
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1]["more_body"], "the end is missing, so that the server closes the connection"
