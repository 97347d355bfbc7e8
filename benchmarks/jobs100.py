"""100 jobs that do nothing, to their end: Stoker, and the machine's own limit, which is as many bare processes at a time."""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from .measure import Row, Spent, cpu_seconds, ratio
from .server import PROJECT, Server

RUNS = 3
JOBS = 100
_LOOK_SECONDS = 0.25  # looking costs the server something, too
_COMMAND = [sys.executable, "-c", "pass"]
_numbers = itertools.count(1)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    bare: list[Spent] = []
    stoker: list[Spent] = []
    with Server() as server:
        run_by_stoker(server, 3)  # warms it up
        for _ in range(runs):
            bare.append(run_bare(JOBS))
            stoker.append(run_by_stoker(server, JOBS))
    at_once = f"{os.cpu_count()} at a time"
    for what, samples, peers in (
        (f"{JOBS} bare python -c pass, {at_once}", bare, None),
        (f"{JOBS} jobs of Stoker, {at_once}", stoker, bare),
    ):
        for kind in ("wall_seconds", "cpu_seconds"):
            values = [float(getattr(spent, kind)) for spent in samples]
            against = [float(getattr(spent, kind)) for spent in peers or []]
            yield Row(
                what=f"{what}, {kind.partition('_')[0]}",
                samples=values,
                ratio=ratio(values, against),
                peer="bare",
            )


def run_bare(count: int) -> Spent:
    """As many processes at a time as there are CPUs."""
    before, begin = _cpu_of_children(), time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda _: subprocess.run(_COMMAND, check=True), range(count)))
    return Spent(_cpu_of_children() - before, time.perf_counter() - begin)


def run_by_stoker(server: Server, count: int) -> Spent:
    """Submit all, then wait until all have succeeded. CPU: the server's, its supervisors' and their programs'."""
    batch = next(_numbers)
    before, begin = cpu_seconds(server.found.pid), time.perf_counter()
    for number in range(count):
        server.run(f"batch{batch}_{number}", *_COMMAND)
    server.wait_for_rest(pause=_LOOK_SECONDS)
    wall = time.perf_counter() - begin
    states = {job["state"] for job in server.client.jobs(PROJECT, count)}
    if states != {"SUCCEEDED"}:
        raise RuntimeError(f"not all jobs succeeded: {states}")
    return Spent(cpu_seconds(server.found.pid) - before, wall)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
