"""Durable submissions over HTTP: how many a second, how long one waits, what one costs the server, and whether they are kept.

The server is held, so that it accepts jobs and starts none. Above it stand two bounds of the same run: the disk's (bare SQLite,
one synced insert after the other, which a group commit may beat) and the web framework's (a bare FastAPI server).
"""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .hello import hello_server
from .load import Load, result, start_load
from .measure import Row, cpu_seconds, percentile, ratio
from .server import PROJECT, Server, wait_until

RUNS = 3
JOBS = 2000
_MOST_SECONDS = 30.0  # a slow server is not asked for all of them
_PATH = f"/stoker/v1/projects/{PROJECT}/jobs:run"
_CLIENTS = (1, 8, 32)
_ROW_BYTES = 700  # about what a job takes in the database


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kill left: how many submissions had been accepted, and how many of them are gone."""

    accepted: int
    lost: int


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    synced: list[float] = []
    hello: dict[int, list[Load]] = {clients: [] for clients in _CLIENTS}
    stoker: dict[int, list[Load]] = {clients: [] for clients in _CLIENTS}
    costs: dict[int, list[float]] = {clients: [] for clients in _CLIENTS}
    kept: list[Kept] = []
    for _ in range(runs):
        synced.append(synced_inserts_per_second())
        with hello_server() as (_, port):
            for clients in _CLIENTS:
                hello[clients].append(result(_post(port, "", "job", JOBS, clients)))
        for clients in _CLIENTS:
            with Server("--hold") as server:  # a fresh one: the queue's length matters
                before = cpu_seconds(server.found.pid)
                load = result(_submit(server, "job", JOBS, clients))
                costs[clients].append(1000 * (cpu_seconds(server.found.pid) - before) / len(load.accepted))
                stoker[clients].append(load)
                if clients == _CLIENTS[-1]:
                    kept.append(kill_and_count(server, load))
    yield Row(what="SQLite, one synced insert after the other", unit="/s", samples=synced)
    for clients in _CLIENTS:
        rates, bare = _rates(stoker[clients]), _rates(hello[clients])
        who = f"{clients} client{'s'[: clients > 1]}"
        jobs = min(len(load.accepted) for load in stoker[clients])
        yield Row(
            what=f"durable submissions, {who}, {jobs:,} jobs",
            unit="/s",
            samples=rates,
            budget=300,
            moonshot=2000,
            more_is_better=True,
            ratio=ratio(rates, bare),
            peer="bare FastAPI",
        )
        latencies = [1000 * seconds for load in stoker[clients] for seconds in load.latencies]
        for percent in (50, 99):
            yield Row(what=f"  latency, p{percent}, {who}", unit="ms", samples=[percentile(latencies, percent)])
        yield Row(what=f"  CPU of the server for each, {who}", unit="ms", samples=costs[clients])
    yield Row(
        what=f"lost of {sum(k.accepted for k in kept):,} accepted, by kill -9 in the middle",
        unit="jobs",
        samples=[sum(k.lost for k in kept)],
        budget=0,
    )


def synced_inserts_per_second(seconds: float = 1.0) -> float:
    """One insert a transaction, synced as Stoker's are, in the folder in which its home would be."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        db = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE jobs (body TEXT)"):
            db.execute(statement)
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            db.execute("INSERT INTO jobs VALUES (?)", ("x" * _ROW_BYTES,))
            count += 1
        took = time.perf_counter() - begin
        db.close()
    return count / took


def kill_and_count(server: Server, load: Load) -> Kept:
    """Kill the server while more is submitted, start it again, and look for all that it had accepted."""
    more = _submit(server, "more", 100 * JOBS, _CLIENTS[-1])
    wait_until(lambda: any(job["name"].startswith("more") for job in server.client.jobs(PROJECT, 1)), "more jobs")
    time.sleep(0.5)
    server.kill()
    accepted = {*load.accepted, *result(more).accepted}
    server.start()
    return Kept(len(accepted), len(accepted - {job["name"] for job in server.client.live_jobs()}))


def _submit(server: Server, prefix: str, count: int, clients: int) -> subprocess.Popen[str]:
    return _post(urlsplit(server.found.url).port or 0, server.found.token, prefix, count, clients)


def _post(port: int, token: str, prefix: str, count: int, clients: int) -> subprocess.Popen[str]:
    return start_load(port, _PATH, token, prefix, count=count, clients=clients, seconds=_MOST_SECONDS)


def _rates(loads: list[Load]) -> list[float]:
    return [len(load.accepted) / load.seconds for load in loads]
