"""A gang of 13 on a warm Ray cluster, a replica on each of 13 nodes, until the last of them is at its first line.

Beside Stoker: 13 bare actors in a placement group, which start the same program.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .measure import Row, ratio
from .ray_site import NOT_INSTALLED, RaySite, has_ray, last_of
from .server import PROJECT, wait_until

RUNS = 3
REPLICAS = 13
REST_SECONDS = 20.0
"""Before each: until then every node has a worker ready, and what was started before is gone."""

_GANG_SECONDS = 300.0
_PROGRAM = """
import os, sys, time
now, name = time.time(), os.path.join(sys.argv[1], os.urandom(8).hex())
with open(name, "w") as file:
    file.write(repr(now))
os.rename(name, name + ".time")
while not os.path.exists(os.path.join(sys.argv[1], "end")):
    time.sleep(0.2)
"""


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    what = f"a gang of {REPLICAS} on {REPLICAS} nodes"
    if not has_ray():
        yield Row(what=what, note=NOT_INSTALLED)
        return
    stoker: list[float] = []
    placed: list[float] = []
    bare: list[float] = []
    with RaySite(REPLICAS, cpus=1, jobs=False) as site:
        for run in range(-1, runs):
            site.wait_for_room()
            time.sleep(REST_SECONDS)
            first_line, until_up = by_stoker(site)
            site.wait_for_room()
            time.sleep(REST_SECONDS)
            actors = by_actors(site)
            if run >= 0:  # the first round warms everybody up
                stoker.append(first_line)
                placed.append(until_up)
                bare.append(actors)
    yield Row(what=f"{what}, bare actors → the last first line", samples=bare)
    yield Row(what=f"{what}, Stoker → the last first line", samples=stoker, ratio=ratio(stoker, bare), peer="bare")
    yield Row(what="  from placed to all UP", samples=placed)


def by_stoker(site: RaySite) -> tuple[float, float]:
    """Seconds from the submission to the last replica's first line, and from being placed to RUNNING."""
    client, name, folder = site.server.client, site.name(), site.new_folder()
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    begin = time.time()
    client.run(PROJECT, {"name": name, "command": command, "workers": REPLICAS - 1, "vcpus": 1})
    seconds = last_of(folder, REPLICAS) - begin
    details: dict[str, Any] = {}

    def runs() -> bool:
        details.update(client.details(PROJECT, name))
        return bool(details["state"] == "RUNNING")

    wait_until(runs, "the gang to run", _GANG_SECONDS)
    end(folder)
    site.server.wait_for_rest()
    return seconds, details["started_at"] - details["attempts"][-1]["placed_at"]


def by_actors(site: RaySite) -> float:
    """Seconds from asking for the placement group to the last actor's program's first line."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    folder = site.new_folder()
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    begin = time.time()
    group = placement_group([{"CPU": 1}] * REPLICAS, strategy="STRICT_SPREAD")
    handles = [site.start_in(group, place, command) for place in range(REPLICAS)]
    seconds = last_of(folder, REPLICAS) - begin
    end(folder)
    for handle in handles:
        ray.kill(handle)
    remove_placement_group(group)
    return seconds


def end(folder: Path) -> None:
    """Let the programs end."""
    (folder / "end").touch()
