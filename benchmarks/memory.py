"""The memory of a server at rest. RSS counts shared pages whole, PSS by their share. Against a bare FastAPI server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from .hello import hello_server
from .measure import Row, ratio
from .server import Server

RUNS = 3
_JOBS = 100
_REST_SECONDS = 2.0
_KINDS = ("Rss", "Pss")


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    moments = ("bare FastAPI, started", "Stoker, started", f"Stoker, after {_JOBS} jobs")
    found: dict[tuple[str, str], list[float]] = {(moment, kind): [] for moment in moments for kind in _KINDS}
    if not Path("/proc/self/smaps_rollup").exists():
        yield Row(what="memory of a server at rest", note="needs Linux: /proc/PID/smaps_rollup")
        return
    for _ in range(runs):
        with hello_server() as (pid, port):
            urlopen(f"http://127.0.0.1:{port}/").read()
            _look(pid, moments[0], found)
        with Server() as server:
            server.client.status()
            _look(server.found.pid, moments[1], found)
            for number in range(_JOBS):
                server.run(f"small_{number}", sys.executable, "-c", "pass")
            server.wait_for_rest()
            _look(server.found.pid, moments[2], found)
    for moment in moments:
        for kind in _KINDS:
            is_ours = moment is not moments[0]
            samples = found[moment, kind]
            yield Row(
                what=f"{kind.upper()}: {moment}",
                unit="MB",
                samples=samples,
                budget=150 if is_ours else None,
                moonshot=90 if is_ours else None,
                ratio=ratio(samples, found[moments[0], kind]) if is_ours else None,
                peer="bare FastAPI",
            )


def _look(pid: int, moment: str, found: dict[tuple[str, str], list[float]]) -> None:
    time.sleep(_REST_SECONDS)
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        kind, _, rest = line.partition(":")
        if kind in _KINDS:
            found[moment, kind].append(int(rest.split()[0]) * 1024 / 1e6)
