"""A program that prints 100 MB: from it, through its supervisor and the server, to a client that follows it, and page by page.

Bare is the same program with its output into a pipe that `cat` reads. Stoker's client gets every line, in order, or this fails;
meanwhile another client lists jobs, which says whether it still has time for others.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import psutil

from .measure import Row, percentile, ratio
from .server import PROJECT, Server

RUNS = 2
LINES = 1_000_000
_LINE_BYTES = 100
_MEGABYTES = LINES * _LINE_BYTES / 1e6
_PROGRAM = f"for n in range({LINES}): print(f'{{n:09d}} '.ljust({_LINE_BYTES - 1}, 'x'))"
_COMMAND = [sys.executable, "-c", _PROGRAM]
_PAUSE_SECONDS = 0.05  # between another client's questions
_numbers = itertools.count(1)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    bare: list[float] = []
    followed: list[float] = []
    paged: list[float] = []
    grown: list[float] = []
    waits: list[float] = []
    with Server() as server:
        process = psutil.Process(server.found.pid)
        for _ in range(runs):
            bare.append(_MEGABYTES / run_bare())
            name = f"chatty_{next(_numbers)}"
            before = process.memory_info().rss
            with Others(server) as others:
                followed.append(_MEGABYTES / follow(server, name))
            waits += others.waits
            paged.append(_MEGABYTES / read_pages(server, name))
            grown.append((process.memory_info().rss - before) / 1e6)
    yield Row(what=f"{LINES:,} lines of a bare program, to cat", unit="MB/s", samples=bare)
    yield Row(
        what="the same, to a client that follows the job",
        unit="MB/s",
        samples=followed,
        ratio=ratio(followed, bare),
        peer="bare",
    )
    yield Row(what="the same, by entries.list, 1000 a page", unit="MB/s", samples=paged)
    yield Row(what="another client's jobs.list meanwhile, median", unit="ms", samples=[1000 * percentile(waits, 50)])
    yield Row(what="another client's jobs.list meanwhile, 99 of 100", unit="ms", samples=[1000 * percentile(waits, 99)])
    yield Row(what="memory that the server has grown by", unit="MB", samples=grown)


def run_bare() -> float:
    """Seconds, with the environment that a replica has."""
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(_COMMAND, stdout=subprocess.PIPE, env=environment) as program:
        subprocess.run(["cat"], stdin=program.stdout, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def follow(server: Server, name: str) -> float:
    """Seconds from submitting to the end of the stream. Raises RuntimeError if a line is missing, or out of order."""
    begin = time.perf_counter()
    server.run(name, *_COMMAND)
    wanted = 0
    for event in server.client.stream(PROJECT, name):
        if event["kind"] == "log" and event["stream"] == "out":
            _check(event["text"], wanted)
            wanted += 1
    if wanted != LINES:
        raise RuntimeError(f"{wanted:,} lines came, of {LINES:,}")
    return time.perf_counter() - begin


def read_pages(server: Server, name: str) -> float:
    """Seconds to read it all by entries.list. Raises RuntimeError like `follow`."""
    filter = f'resource.labels.job_id="{name}" AND resource.labels.task_name="master-replica-0" AND severity=INFO'
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": filter, "pageSize": 1000}
    headers = {"Authorization": f"Bearer {server.found.token}"}
    begin, wanted, token = time.perf_counter(), 0, ""
    with httpx.Client(base_url=server.found.url, headers=headers, timeout=60, trust_env=False) as http:
        while token is not None:
            page = http.post("/v2/entries:list", json={**body, "pageToken": token}).raise_for_status().json()
            for entry in page.get("entries", []):
                _check(entry["jsonPayload"]["message"], wanted)
                wanted += 1
            token = page.get("nextPageToken")
    if wanted != LINES:
        raise RuntimeError(f"{wanted:,} lines were read, of {LINES:,}")
    return time.perf_counter() - begin


def _check(text: str, wanted: int) -> None:
    if not text.startswith(f"{wanted:09d}"):
        raise RuntimeError(f"line {wanted:,} is {text[:40]!r}")


class Others:
    """`with Others(server) as others:` a client that lists jobs all the time; `waits` says how long each answer took.

    In a process of its own: the follower's interpreter is not its to wait for.
    """

    def __init__(self, server: Server) -> None:
        self.waits: list[float] = []
        self._words = [sys.executable, "-m", "benchmarks.logs", server.found.url, server.found.token]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Others:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self.waits = json.loads(self._process.communicate("enough")[0])


def main(words: list[str]) -> None:
    """List jobs until something is read, then print how many seconds each answer took."""
    url, token = words
    waits: list[float] = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False) as http:
        while not select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
            begin = time.perf_counter()
            http.get(f"/v1/projects/{PROJECT}/jobs").raise_for_status()
            waits.append(time.perf_counter() - begin)
    print(json.dumps(waits))


if __name__ == "__main__":
    main(sys.argv[1:])
