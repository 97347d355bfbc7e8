"""AI Platform v1 over HTTP: create, get and list of 100, among 100 jobs and among 100,000. Lists must not slow down.

One client, one connection, one request after the other, so that a latency is the server's own time and no queue's. The server is
held: it accepts jobs and starts none. The jobs that are there already have ended, but for the last hundred, which wait.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from stoker.api.dialects.aiplatform_v1.jobs import read_job
from stoker.api.translation import SiteRules
from stoker.core.changes import Change, MoveJob, Submit
from stoker.core.ids import job_id
from stoker.core.job import Job
from stoker.core.states import JobState
from stoker.store.sql import SqlStore

from .hello import hello_server
from .measure import Row, percentile, ratio
from .server import PROJECT, Server

RUNS = 3
FEW, MANY = 100, 100_000
WAITING = 100
_REQUESTS = {"create": 300, "get": 600, "list of 100": 60, "list of 100, state=FAILED AND jobId:job_*": 60}
_AT_ONCE = 500
_PACKAGE = "gs://bench/trainer.tar.gz"
_JOBS = f"/v1/projects/{PROJECT}/jobs"


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    latencies: dict[tuple[str, int], list[list[float]]] = {(what, n): [] for what in _REQUESTS for n in (FEW, MANY)}
    bare: list[list[float]] = []
    for size in (FEW, MANY):
        server = Server("--hold")
        fill(server.home / "stoker.db", size, waiting=0 if size == FEW else WAITING)
        _put_package(server.home)
        with server:
            for run in range(runs):
                for what, found in _ask(server, size, f"new_{run}").items():
                    latencies[what, size].append(found)
    with hello_server() as (_, port):
        for _ in range(runs):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            bare.append([_timed(connection, "GET", "/", {}) for _ in range(_REQUESTS["get"])])
    yield Row(what="bare FastAPI, one client", unit="/s", samples=_rates(bare))
    for what in _REQUESTS:
        for size in (FEW, MANY):
            found = latencies[what, size]
            few = _rates(latencies[what, FEW])
            yield Row(
                what=f"{what}, among {size:,} jobs",
                unit="/s",
                samples=_rates(found),
                more_is_better=True,
                ratio=ratio(_rates(found), _rates(bare) if size == FEW else few),
                peer="bare FastAPI" if size == FEW else f"among {FEW:,} jobs",
            )
            every = [1000 * seconds for run in found for seconds in run]
            yield Row(what="  p50", unit="ms", samples=[percentile(every, 50)])
            yield Row(what="  p99", unit="ms", samples=[percentile(every, 99)])


def _ask(server: Server, size: int, name: str) -> dict[str, list[float]]:
    """The latencies of each kind of request, in seconds."""
    url = urlsplit(server.found.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    headers = {"Authorization": f"Bearer {server.found.token}", "Content-Type": "application/json"}

    def ask(method: str, path: str, body: Any = None) -> float:
        return _timed(connection, method, path, headers, body)

    listed = f"{_JOBS}?pageSize=100"
    filtered = f"{listed}&filter={quote('state=FAILED AND jobId:job_*')}"
    every = size // _REQUESTS["get"] or 1
    paths = {
        "create": lambda n: ask("POST", _JOBS, _body(f"{name}_{n}")),
        "get": lambda n: ask("GET", f"{_JOBS}/job_{n * every % size}"),
        "list of 100": lambda n: ask("GET", listed),
        "list of 100, state=FAILED AND jobId:job_*": lambda n: ask("GET", filtered),
    }
    for request in paths.values():
        request(10**6)  # the first one loads what the others need
    return {what: [request(n) for n in range(_REQUESTS[what])] for what, request in paths.items()}


def _timed(
    connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: Any = None
) -> float:
    begin = time.perf_counter()
    connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
    answer = connection.getresponse()
    text = answer.read()
    took = time.perf_counter() - begin
    if answer.status >= 400 and "job_1000000" not in path and "1000000" not in path:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
    return took


def fill(path: Path, jobs: int, *, waiting: int = WAITING, since: float = 1e9) -> None:
    """A database in which so many jobs have been submitted, since a moment; all but the last have ended."""
    store = SqlStore(path)
    row = _job("job_0")
    for start in range(0, jobs, _AT_ONCE):
        changes: list[Change] = []
        for n in range(start, min(jobs, start + _AT_ONCE)):
            job = replace(row, id=job_id(PROJECT, f"job_{n}"), submitted_at=since + n / 2)
            changes.append(Submit(job=job))
            if n < jobs - waiting:
                after = JobState.FAILED if n % 2 else JobState.CANCELLED
                changes.append(
                    MoveJob(job=job.id, before=JobState.QUEUED, after=after, at=since + n / 2, message="It ended.")
                )
        store.commit(changes, by="bench")
    store.close()


def _job(name: str) -> Job:
    asked = read_job(_body(name), SiteRules())
    return Job(
        id=job_id(PROJECT, name),
        spec=asked.spec,
        request=asked.request,
        owner="bench",
        submitted_at=0.0,
        labels=asked.labels,
    )


def _body(name: str) -> dict[str, Any]:
    return {
        "jobId": name,
        "labels": {"team": "bench"},
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "region": "us-central1",
            "pythonModule": "trainer.task",
            "packageUris": [_PACKAGE],
            "args": ["--epochs", "10", "--batch-size", "64"],
            "jobDir": "gs://bench/out",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
        },
    }


def _put_package(home: Path) -> None:
    path = home / "buckets/gs/bench/trainer.tar.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a package that nobody unpacks")


def _rates(runs: list[list[float]]) -> list[float]:
    """Requests a second, of each run."""
    return [len(run) / sum(run) for run in runs]
