"""One job prints 100 MB a minute: what it costs the others on their way to a running program and to a gone one."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator

from .logs import Others
from .measure import Row, cpu_seconds, percentile, ratio
from .server import PROJECT, Server, wait_until

RUNS = 2
PROBES = 10
MEGABYTES_A_MINUTE = 100
_LINE_BYTES = 100
_LINES_AT_ONCE = MEGABYTES_A_MINUTE * 1_000_000 // _LINE_BYTES // 60 // 20
_PROGRAM = f"""
import time
line, due = "x" * {_LINE_BYTES - 1} + "\\n", time.monotonic()
while True:
    print(line * {_LINES_AT_ONCE}, end="", flush=True)
    due += 0.05
    time.sleep(max(0.0, due - time.monotonic()))
"""
_WHAT = ("submitted until it runs", "cancelled until it is gone", "another's jobs.list")
_numbers = itertools.count(1)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    found: dict[tuple[str, bool], list[float]] = {(what, noisy): [] for what in _WHAT for noisy in (False, True)}
    printed: list[float] = []
    cpu: list[float] = []
    for _ in range(runs):
        for is_noisy in (False, True):
            with Server() as server:
                if is_noisy:
                    server.run("noisy", sys.executable, "-c", _PROGRAM)
                    _wait_for(server, "noisy", "RUNNING")
                begin, before, lines = time.monotonic(), cpu_seconds(server.found.pid), _lines_kept(server)
                _probe(server, is_noisy, found)
                seconds = time.monotonic() - begin
                if is_noisy:
                    printed.append((_lines_kept(server) - lines) * _LINE_BYTES / 1e6 / seconds * 60)
                    cpu.append(100 * (cpu_seconds(server.found.pid) - before) / seconds)
    for what in _WHAT:
        quiet, loud = ([1000 * seconds for seconds in found[what, noisy]] for noisy in (False, True))
        yield Row(what=f"{what}, in quiet", unit="ms", samples=quiet)
        yield Row(
            what=f"{what}, beside 100 MB a minute", unit="ms", samples=loud, ratio=ratio(loud, quiet), peer="quiet"
        )
        yield Row(
            what="  p99 in quiet, and beside it", unit="ms", samples=[percentile(quiet, 99), percentile(loud, 99)]
        )
    yield Row(what="kept of the printed, a minute", unit="MB", samples=printed)
    yield Row(what="the server's CPU meanwhile, of one", unit="%", samples=cpu)


def _lines_kept(server: Server) -> int:
    """The number of the noisy job's last line that the server has."""
    path = server.home / "logs" / PROJECT / "noisy.jsonl"
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        whole = file.read().rpartition(b"\n")[0]
    return int(json.loads(whole.rpartition(b"\n")[2])["n"])


def _probe(server: Server, is_noisy: bool, found: dict[tuple[str, bool], list[float]]) -> None:
    """Jobs that come and are cancelled, while somebody lists jobs all the time."""
    with Others(server) as others:
        for _ in range(PROBES):
            name = f"probe_{next(_numbers)}"
            begin = time.perf_counter()
            server.run(name, "sleep", "300")
            _wait_for(server, name, "RUNNING")
            found[_WHAT[0], is_noisy].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            server.client.cancel(PROJECT, name)
            _wait_for(server, name, "CANCELLED")
            found[_WHAT[1], is_noisy].append(time.perf_counter() - begin)
    found[_WHAT[2], is_noisy].extend(others.waits)


def _wait_for(server: Server, name: str, state: str) -> None:
    wait_until(lambda: server.client.details(PROJECT, name)["state"] == state, f"{name} to be {state}", pause=0.01)
