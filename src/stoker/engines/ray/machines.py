"""Orders of machines, in the driver's process: what Ray's autoscaler is asked for, and what it says did not come.

A node type of the cluster file is a pool of the site; each of its machines has one of a resource of the pool's name. So many of
that resource are asked for as there are to be machines, used or not:
https://docs.ray.io/en/latest/cluster/running-applications/autoscaling/reference.html (request_resources). Ray keeps one such
request for the whole cluster; whoever else makes one there takes Stoker's away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from stoker.engines.ray.inventory import POOL_RESOURCE

WORDS_SECONDS = 5.0
"""So long it is waited for what the head's log says."""

_HEAD_RESOURCE = "node:__internal_head__"
_STATUS_OF_V1 = "__autoscaling_status"
_NO_WORDS = "Ray's autoscaler could not launch it; the file monitor.log on the head says why"
_LONGEST_WORDS = 500


class Machines:
    """What is on order."""

    def __init__(self, gcs_address: str, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._gcs_address = gcs_address
        self._tell = tell
        self._wanted: dict[str, int] = {}
        self._known: dict[str, float] = {}  # pool → when the last failure was that is no news, by the head's clock

    def want(self, machines: Mapping[str, int]) -> None:
        """Ask for so many machines of each pool, all together, instead of what was asked for before."""
        if not self._wanted:  # what failed before is no news
            self._known |= {pool: at for pool, at, _ in self._failures()}
        request_resources(bundles=[{POOL_RESOURCE + pool: 1} for pool, count in machines.items() for _ in range(count)])
        self._wanted = dict(machines)

    def look(self) -> None:
        """Tell what has failed since the last look."""
        if not self._wanted:
            return
        for pool, at, why in self._failures():
            is_news = at > self._known.get(pool, 0.0)
            self._known[pool] = max(at, self._known.get(pool, 0.0))
            if is_news and self._wanted.get(pool):
                self._tell({"event": "no_machine", "pool": pool, "why": (why or self._words(pool))[:_LONGEST_WORDS]})

    def _failures(self) -> Iterator[tuple[str, float, str]]:
        """The last failure of each pool: when, by the head's clock, and the words, where Ray has any."""
        found: dict[str, tuple[float, str]] = {}
        for launch in get_cluster_status(self._gcs_address).failed_launches:
            at = float(launch.failed_ts_s or launch.request_ts_s)
            found[launch.ray_node_type_name] = max(
                found.get(launch.ray_node_type_name, (0.0, "")), (at, launch.details or "")
            )
        for pool, (at, why) in {**_failures_of_v1(), **found}.items():
            yield pool, at, why

    def _words(self, pool: str) -> str:
        """What the cloud said, from the autoscaler's log on the head: its newer version keeps the words nowhere else."""
        heads = [row["NodeID"] for row in ray.nodes() if row["Alive"] and _HEAD_RESOURCE in row["Resources"]]
        if not heads:
            return _NO_WORDS
        where = NodeAffinitySchedulingStrategy(heads[0], soft=False)
        task = ray.remote(num_cpus=0, max_retries=0)(last_words).options(scheduling_strategy=where)
        try:
            return str(ray.get(task.remote(pool), timeout=WORDS_SECONDS)) or _NO_WORDS
        except RayError:
            return _NO_WORDS


def last_words(pool: str) -> str:
    """What the log of the autoscaler on this machine says last of a launch that failed. Runs on the head, where Stoker is not."""
    import glob
    import os
    import re

    import ray

    said = re.compile(rf"Failed to launch \d+ nodes of type {re.escape(pool)}: (.+)")
    folder = ray._private.worker._global_node.get_logs_dir_path()
    for path in sorted(glob.glob(os.path.join(folder, "monitor*.log")), key=os.path.getmtime, reverse=True):
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - 1_000_000))
            found = [match[1] for line in log if (match := said.search(line.decode(errors="replace")))]
        if found:
            return found[-1].strip()
    return ""


def _failures_of_v1() -> dict[str, tuple[float, str]]:
    """What the autoscaler's older version says of node types that it could not launch."""
    try:
        report = json.loads(_internal_kv_get(_STATUS_OF_V1) or b"{}")["autoscaler_report"]
        types = report["node_availability_summary"]["node_availabilities"]
        return {
            pool: (float(one["last_checked_timestamp"]), _words_of_v1(one["unavailable_node_information"]))
            for pool, one in types.items()
            if not one["is_available"]
        }
    except (KeyError, TypeError, ValueError):
        return {}


def _words_of_v1(said: Mapping[str, str] | None) -> str:
    return ": ".join(filter(None, ((said or {}).get("category"), (said or {}).get("description"))))
