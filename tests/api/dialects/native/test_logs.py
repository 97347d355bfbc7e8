"""What a job printed, as a stream that can be taken up again."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api.stream import Wanted, lines
from stoker.app import Stoker
from tests.api.bodies import a_run, violations

PROJECT = "/stoker/v1/projects/p"
LOGS = f"{PROJECT}/jobs/r/logs"


@pytest.fixture(autouse=True)
def job(http: TestClient) -> None:
    """A job of a chief and two workers that waits."""
    assert http.post(f"{PROJECT}/jobs:run", json=a_run(workers=2)).status_code == 200


def printed(stoker: Stoker, *texts: str, first: int = 1, replica: str = "chief-0", stream: str = "out") -> None:
    """Lines that the job has printed."""
    found = [{"n": first + n, "t": 1.0, "s": stream, "m": text} for n, text in enumerate(texts)]
    stoker.services.logs.append("p/r.1", replica, found)


def told(http: TestClient, query: str = "") -> list[dict[str, Any]]:
    """The objects of the stream."""
    answer = http.get(LOGS + query)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines() if line]


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [event["text"] for event in events if event["kind"] == "log"]


def test_each_line_has_a_sequence_that_grows(http: TestClient, stoker: Stoker) -> None:
    printed(stoker, "a", "b")
    printed(stoker, "c", replica="worker-1", stream="err")
    found = told(http)
    assert [(e["replica"], e["stream"], e["text"]) for e in found] == [
        ("chief-0", "out", "a"),
        ("chief-0", "out", "b"),
        ("worker-1", "err", "c"),
    ]
    sequences = [event["sequence"] for event in found]
    assert sequences == sorted(set(sequences)) and found[0]["attempt"] == "p/r.1"


def test_of_a_silent_job_there_is_nothing(http: TestClient) -> None:
    assert told(http) == []


def test_wherever_it_is_cut_off_nothing_is_lost_and_nothing_told_twice(http: TestClient, stoker: Stoker) -> None:
    printed(stoker, *(f'{n} ü \\ "' for n in range(20)))
    whole = told(http)
    for cut in range(20):
        assert told(http, f"?after={whole[cut]['sequence']}") == whole[cut + 1 :]
    assert told(http, "?after=999999999") == []
    assert (
        told(http, f"?after={whole[4]['sequence'] - 3}") == whole[5:]
    )  # no sequence that was told: the next whole line


def test_in_pages(http: TestClient, stoker: Stoker) -> None:
    printed(stoker, *map(str, range(2500)))
    found: list[dict[str, Any]] = []
    while page := told(http, f"?limit=999&after={found[-1]['sequence'] if found else 0}"):
        assert len(page) <= 999
        found += page
    assert texts(found) == list(map(str, range(2500)))


def test_of_one_replica_or_one_stream(http: TestClient, stoker: Stoker) -> None:
    printed(stoker, "a", "b")
    printed(stoker, "c", "d", replica="worker-1", stream="err")
    printed(stoker, "e", replica="worker-0", stream="service")
    assert texts(told(http, "?replica=worker-1")) == ["c", "d"]
    assert texts(told(http, "?replica=master-0")) == ["a", "b"]
    assert texts(told(http, "?stream=service")) == ["e"]
    assert texts(told(http, "?stream=err&limit=1")) == ["c"]
    assert texts(told(http, "?replica=worker-0&stream=err")) == []


def test_what_it_does_not_have_is_refused(http: TestClient) -> None:
    answer = http.get(f"{LOGS}?replica=worker-7")
    assert answer.status_code == 400 and "there are chief-0, worker-0, worker-1" in violations(answer)["replica"]
    for query in ("stream=x", "after=-1", "after=x", "limit=0", "follow=x"):
        answer = http.get(f"{LOGS}?{query}")
        assert answer.status_code == 400 and list(violations(answer)) == [query.partition("=")[0]], query


def test_who_follows_is_told_the_end(http: TestClient, stoker: Stoker) -> None:
    printed(stoker, "a")
    with ThreadPoolExecutor() as threads:
        following = threads.submit(told, http, "?follow=true")
        printed(stoker, "b", first=2)
        http.post("/v1/projects/p/jobs/r:cancel", json={})
        stoker.loop.settle_down()
        found = following.result()
    assert texts(found) == ["a", "b"]
    assert (found[-1]["kind"], found[-1]["state"], found[-1]["exit_code"]) == ("end", "CANCELLED", 1)
    assert [e["kind"] for e in told(http)] == ["log", "log"]  # without following, the lines are all
    assert [e["kind"] for e in told(http, "?follow=true&limit=1")] == ["log"]
    assert [e["kind"] for e in told(http, f"?follow=true&after={found[1]['sequence']}")] == ["end"]


def test_the_end_of_the_server_is_no_end_of_the_job(stoker: Stoker) -> None:
    async def story() -> list[str]:
        stoker.services.notifier.attach()
        printed(stoker, "a")
        stream = lines(stoker.services, "p/r", Wanted(), after=0, to_end=True)
        first = await anext(stream)
        stoker.services.notifier.close()
        return [first, *[line async for line in stream if line]]

    assert [json.loads(line)["kind"] for line in asyncio.run(story())] == ["log"]


def test_memory_stays_flat(stoker: Stoker) -> None:
    for batch in range(40):
        printed(stoker, *["x" * 10_000] * 100, first=1 + 100 * batch)

    async def read() -> int:
        size = 0
        async for part in lines(stoker.services, "p/r", Wanted(), after=0, to_end=False):
            size += len(part)
        return size

    tracemalloc.start()
    size = asyncio.run(read())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 40_000_000 and peak < 10_000_000
