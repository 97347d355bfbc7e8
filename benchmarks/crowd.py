"""A busy site: 1,000 running and 100,000 stored jobs, 200 people who ask once a second, 50 who follow a job's output.

A real server process with the real engine. The thousand replicas are not processes of their own, which would take ten
gigabytes: `crowd_people.py` holds their folders' locks, and prints in their names over HTTP. For the server that is the same.
`python -m benchmarks.crowd --minutes 10` takes as long as it says.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from .api import fill
from .crowd_people import PROJECT
from .measure import Row, cpu_seconds, percentile, table
from .server import Server, wait_until

RUNS = 1
SECONDS = 60.0
STORED, RUNNING, POLLERS, STREAMS = 100_000, 1000, 200, 50
_LOOK_SECONDS = 1.0
_SETTLE_SECONDS, _IDLE_SECONDS = 2.0, 10.0
_WARM_SHARE = 0.25  # of the time: until then caches fill, and memory is not asked about


@dataclass(slots=True)
class Seen:
    """What was measured."""

    stored: int
    running: int
    start_seconds: float = 0.0
    running_seconds: float = 0.0
    latencies: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MB
    cpu_share: float = 0.0
    idle_cpu_share: float = 0.0  # before any job has come

    @property
    def growth(self) -> tuple[float, float]:
        """MB an hour once warm, and how far off that may be (twice the standard error)."""
        return slope(self.memory[int(len(self.memory) * _WARM_SHARE) :])


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    yield from rows([look(SECONDS, STORED, RUNNING, POLLERS, STREAMS) for _ in range(runs)])


def rows(found: Sequence[Seen]) -> Iterator[Row]:
    """What came of all runs."""
    yield Row(
        what=f"a server with {found[0].stored:,} stored jobs starts in", samples=[seen.start_seconds for seen in found]
    )
    yield Row(
        what=f"and sees {found[0].running:,} new jobs run after", samples=[seen.running_seconds for seen in found]
    )
    yield Row(what="errors", unit="jobs", samples=[float(len(seen.errors)) for seen in found])
    for what in sorted({what for seen in found for what in seen.latencies}):
        every = [1000 * seconds for seen in found for seconds in seen.latencies[what]]
        yield Row(what=f"{what}, median of {len(every):,}", unit="ms", samples=[percentile(every, 50)])
        yield Row(what="  p99", unit="ms", samples=[percentile(every, 99)])
    yield Row(what="the server's CPU, of one", unit="%", samples=[100 * seen.cpu_share for seen in found])
    yield Row(what="its memory at the end", unit="MB", samples=[seen.memory[-1][1] for seen in found])
    for seen in found:
        growth, doubt = seen.growth
        yield Row(what="its growth in an hour, by the slope", unit="MB", samples=[growth])
        yield Row(what="  give or take", unit="MB", samples=[doubt])


def look(seconds: float, stored: int, running: int, pollers: int, streams: int, *, beats: int = 0) -> Seen:
    """Fill a server, let everybody come, and watch. `beats`: of so many replicas, as if they were on other machines."""
    seen = Seen(stored, running)
    server = Server(f"--fake={-(-running // 4)}x4xT4", settings={"local_replicas": 2 * running})
    fill(server.home / "stoker.db", stored, waiting=0, since=time.time() - 86_400)
    people = _people(server.home / "runs" / PROJECT, server, running, pollers, streams, seconds, beats)
    try:
        begin = time.perf_counter()
        with server:
            seen.start_seconds = time.perf_counter() - begin
            if beats:
                seen.idle_cpu_share = _idle_cpu_share(server.found.pid)
            for number in range(running):
                body = {"name": f"run_{number}", "command": ["true"], "gpus": 1, "gpu_type": "T4"}
                server.client.run(PROJECT, body)
            begin = time.perf_counter()
            last = f"run_{running - 1}"
            wait_until(lambda: server.client.details(PROJECT, last)["state"] == "RUNNING", "all to run", 300)
            seen.running_seconds = time.perf_counter() - begin
            _watch(server, people, seconds, seen)
            server.kill()  # before its replicas go
    finally:
        people.kill()
        people.wait()
    return seen


def _idle_cpu_share(pid: int) -> float:
    """Of one CPU, what a process takes while nobody asks it for anything."""
    time.sleep(_SETTLE_SECONDS)
    begin, before = time.monotonic(), cpu_seconds(pid)
    time.sleep(_IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / (time.monotonic() - begin)


def _people(folder: Path, server: Server, *numbers: float) -> subprocess.Popen[str]:
    """The process of all people, with the replicas held."""
    running, pollers, streams, seconds, beats = numbers
    token = "".join(f"{n:02x}" for n in range(32))
    (server.home / "token").write_text(token)
    (server.home / "token").chmod(0o600)
    words = [
        "0",
        token,
        str(folder),
        *(str(int(n)) for n in (running, pollers, streams)),
        str(seconds),
        str(int(beats)),
    ]
    command = [sys.executable, "-m", "benchmarks.crowd_people", *words]
    people = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert people.stdout is not None
    if people.stdout.readline().strip() != "held":
        raise RuntimeError("the replicas could not be made, see above")
    return people


def _watch(server: Server, people: subprocess.Popen[str], seconds: float, seen: Seen) -> None:
    assert people.stdin is not None and people.stdout is not None
    process = psutil.Process(server.found.pid)
    people.stdin.write(f"{urlsplit(server.found.url).port}\n")
    people.stdin.flush()
    begin, before = time.monotonic(), cpu_seconds(process.pid)
    while time.monotonic() - begin < seconds:
        seen.memory.append((time.monotonic() - begin, process.memory_info().rss / 1e6))
        time.sleep(_LOOK_SECONDS)
    seen.cpu_share = (cpu_seconds(process.pid) - before) / (time.monotonic() - begin)
    found: dict[str, Any] = json.loads(people.stdout.readline())
    seen.latencies = {what: [took for _, took in samples] for what, samples in found["latencies"].items()}
    seen.errors = found["errors"]
    for error in seen.errors:
        print(f"! {error}", file=sys.stderr)


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of values over seconds: the growth in an hour by least squares, and twice its standard error."""
    if len(points) < 3:
        return 0.0, float("inf")
    times, values = [t for t, _ in points], [v for _, v in points]
    line = statistics.linear_regression(times, values)
    middle = statistics.fmean(times)
    rest = sum((v - line.intercept - line.slope * t) ** 2 for t, v in points) / (len(points) - 2)
    error = (rest / sum((t - middle) ** 2 for t in times)) ** 0.5
    return 3600 * line.slope, 2 * 3600 * error


def main(arguments: Sequence[str] | None = None) -> None:
    """One run, as large and as long as asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=SECONDS / 60)
    parser.add_argument("--stored", type=int, default=STORED)
    parser.add_argument("--running", type=int, default=RUNNING)
    parser.add_argument("--pollers", type=int, default=POLLERS)
    parser.add_argument("--streams", type=int, default=STREAMS)
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what we started ends with us
    found = look(60 * asked.minutes, asked.stored, asked.running, asked.pollers, min(asked.streams, asked.running))
    print(table(list(rows([found]))))


if __name__ == "__main__":
    main()
