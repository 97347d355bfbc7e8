"""From submitting to the first line of user code on a warm Ray cluster: Stoker, Ray Jobs, and a bare detached actor.

Each round runs all the ways once, one after the other, with the cluster at rest before each. Ray starts a worker process for an
actor, which takes it a second; Stoker's engine has one ready on every node. So the actor is measured both ways: as Ray starts it,
and with such a worker ready.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from statistics import median

from .measure import Row, ratio
from .ray_site import NOT_INSTALLED, RaySite, has_ray

RUNS = 15
NODES, CPUS = 2, 4
REST_SECONDS = 6.0
"""Before each: what the one before has left is gone by then, and a worker is ready where one is kept."""

_WARM_ROUNDS = 2
_WHAT = "submit → first line on Ray:"


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    if not has_ray():
        yield Row(what=f"{_WHAT} Stoker", note=NOT_INSTALLED)
        return
    found: dict[str, list[float]] = {}
    with RaySite(NODES, cpus=CPUS) as site:
        ways = {
            "stoker": site.by_stoker,
            "jobs": site.by_ray_jobs,
            "actor": site.by_actor,
            "ready": site.by_ready_actor,
        }
        for run in range(-_WARM_ROUNDS, runs):
            for name, way in ways.items():
                site.wait_for_room()
                if name == "ready":
                    site.make_ready()
                time.sleep(REST_SECONDS)
                seconds = site.first_line(way)
                if run >= 0:
                    found.setdefault(name, []).append(1000 * seconds)
    yield from _rows(found)


def _rows(found: Mapping[str, list[float]]) -> Iterator[Row]:
    stoker = found["stoker"]
    for name, what in (
        ("jobs", "Ray Jobs, JobSubmissionClient"),
        ("actor", "a bare detached actor"),
        ("ready", "a bare detached actor, its worker ready"),
    ):
        yield Row(
            what=f"{_WHAT} {what}", unit="ms", samples=found[name], ratio=ratio(found[name], stoker), peer="Stoker's"
        )
    yield Row(
        what=f"{_WHAT} Stoker (a third of Ray Jobs)",
        unit="ms",
        samples=stoker,
        budget=median(found["jobs"]) / 3,
        ratio=ratio(stoker, found["jobs"]),
        peer="Ray Jobs",
    )
    for name, what in (("actor", "the bare actor"), ("ready", "the bare actor, its worker ready")):
        yield Row(
            what=f"  Stoker over {what}",
            unit="ms",
            samples=[mine - bare for mine, bare in zip(stoker, found[name], strict=True)],
            budget=300,
            ratio=ratio(stoker, found[name]),
            peer="bare",
        )
