"""500 short jobs on a warm Ray cluster, to their end: Stoker, bare tasks of Ray, and, since they take so long, 20 of Ray Jobs.

A bare task runs in a worker process that has run others before; nobody remembers it. A job of Stoker's has a place of its own,
an actor in a new worker process, a supervisor, and a row that stays.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator

from .measure import Row, cpu_seconds
from .ray_child import run_child
from .ray_site import NOT_INSTALLED, RaySite, has_ray
from .server import PROJECT

RUNS = 1
JOBS, RAY_JOBS = 500, 20
NODES, CPUS = 2, 4
_MOST_SECONDS = 1200.0
_LOOK_SECONDS = 0.5
_COMMAND = [sys.executable, "-c", "pass"]
_numbers = itertools.count(1)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    if not has_ray():
        yield Row(what=f"{JOBS} short jobs on Ray", note=NOT_INSTALLED)
        return
    stoker: list[float] = []
    cpu: list[float] = []
    tasks: list[float] = []
    jobs: list[float] = []
    with RaySite(NODES, cpus=CPUS) as site:
        by_tasks(NODES * CPUS)
        by_stoker(site, NODES * CPUS)  # both are warm now
        for _ in range(runs):
            tasks.append(JOBS / by_tasks(JOBS))
            site.wait_for_room()
            before = cpu_seconds(site.server.found.pid)
            stoker.append(JOBS / by_stoker(site, JOBS))
            cpu.append(1000 * (cpu_seconds(site.server.found.pid) - before) / JOBS)
            site.wait_for_room()
            jobs.append(RAY_JOBS / by_ray_jobs(site, RAY_JOBS))
    at_once = f"{NODES * CPUS} at a time"
    yield Row(what=f"{JOBS} bare tasks of Ray, {at_once}", unit="jobs/s", samples=tasks, more_is_better=True)
    for what, samples, peers, peer in (
        (f"{RAY_JOBS} of Ray Jobs, all at a time", jobs, tasks, "bare tasks"),
        (f"{JOBS} jobs of Stoker, {at_once}", stoker, tasks, "bare tasks"),
        ("  beside Ray Jobs", stoker, jobs, "Ray Jobs"),
    ):
        yield Row(
            what=what,
            unit="jobs/s",
            samples=samples,
            more_is_better=True,
            ratio=sum(samples) / sum(peers),
            peer=peer,
        )
    yield Row(what="  the server's CPU for each", unit="ms", samples=cpu)


def by_tasks(count: int) -> float:
    """Seconds for so many tasks of one CPU."""
    import ray

    task = ray.remote(num_cpus=1, max_retries=0)(run_child)
    begin = time.perf_counter()
    ray.get([task.remote(_COMMAND) for _ in range(count)])
    return time.perf_counter() - begin


def by_stoker(site: RaySite, count: int) -> float:
    """Seconds from the first submission until all have succeeded."""
    batch = next(_numbers)
    begin = time.perf_counter()
    for number in range(count):
        site.server.run(f"short{batch}_{number}", *_COMMAND)
    site.server.wait_for_rest(_MOST_SECONDS, _LOOK_SECONDS)
    seconds = time.perf_counter() - begin
    found = {job["name"]: job["state"] for job in site.server.client.jobs(PROJECT, count)}
    if set(found.values()) != {"SUCCEEDED"} or len(found) != count:
        raise RuntimeError(f"not all of {count} jobs succeeded: {len(found)}, {set(found.values())}")
    return seconds


def by_ray_jobs(site: RaySite, count: int) -> float:
    """Seconds from the first submission until all have ended."""
    begin = time.perf_counter()
    tidy = [site.by_ray_jobs(_COMMAND) for _ in range(count)]
    for wait in tidy:
        wait()
    return time.perf_counter() - begin
