"""Orders of machines, in the driver's process: what Ray's autoscaler is asked for, and what it says did not come.

A node type of the cluster file is a pool of the site; each of its machines has one of a resource of the pool's name. So many of
that resource are asked for as there are to be machines, used or not:
https://docs.ray.io/en/latest/cluster/running-applications/autoscaling/reference.html (request_resources). Ray keeps one such
request for the whole cluster; whoever else makes one there takes Stoker's away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import ray
from ray.autoscaler.sdk import request_resources
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from stoker.engines.ray import autoscaler_log
from stoker.engines.ray.inventory import POOL_RESOURCE

WORDS_SECONDS = 5.0
"""So long it is waited for what the head's log says."""

GRACE_SECONDS = 60.0
"""So long what is on order stands without a server: one that is started anew finds what has come."""

_WHO = b"stoker-wants"  # under this key lies who has asked last
_HEAD_RESOURCE = "node:__internal_head__"
_STATUS_OF_V1 = "__autoscaling_status"
_NO_WORDS = "Ray's autoscaler could not launch it; the file monitor.log on the head says why"
_LONGEST_WORDS = 500


class Machines:
    """What is on order."""

    def __init__(self, gcs_address: str, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._gcs_address = gcs_address
        self._tell = tell
        self._me = uuid4().hex.encode()
        self._wanted: dict[str, int] = {}
        self._known: dict[str, float] = {}  # pool → when the last failure was that is no news, by the head's clock
        self._asking = ThreadPoolExecutor(1)
        ray.cloudpickle.register_pickle_by_value(autoscaler_log)

    def want(self, machines: Mapping[str, int]) -> None:
        """Ask for so many machines of each pool, all together, instead of what was asked for before."""
        if not self._wanted:  # what failed before is no news
            self._known |= {pool: at for pool, at, _ in self._failures()}
        _internal_kv_put(_WHO, self._me)
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
                self._asking.submit(self._tell_failure, pool, why)

    def leave(self) -> None:
        """The server is gone. Unless another has one come that wants machines within a minute, none is to come any more."""
        if self._wanted:
            until = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < until and _internal_kv_get(_WHO) == self._me:
                time.sleep(1.0)
            if _internal_kv_get(_WHO) == self._me:
                request_resources(bundles=[])

    def _tell_failure(self, pool: str, why: str) -> None:
        words = (why or self._words(pool))[:_LONGEST_WORDS]
        self._tell({"event": "no_machine", "pool": pool, "why": words})

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
        task = ray.remote(num_cpus=0, max_retries=0)(autoscaler_log.last_words).options(scheduling_strategy=where)
        try:
            return str(ray.get(task.remote(pool), timeout=WORDS_SECONDS)) or _NO_WORDS
        except RayError:
            return _NO_WORDS


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
