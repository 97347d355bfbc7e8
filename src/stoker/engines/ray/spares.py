"""One worker process of Ray's ready on every node, since Ray takes a second to start one for an actor.

A node starts one when it is told to (`PrestartWorkers`), and the next actor there takes it. It is Ray's own, costs some 50 MB
and no CPU that Ray counts, and ends with our driver. Ray offers this to nobody but itself: where it is missing or refused,
replicas start later by that second, and nothing else changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

KEPT_SECONDS = 3600
"""So long Ray is asked to keep one that nobody takes."""

AFTER_SECONDS = 2.0
"""Between the start of an actor on a node, or the first sight of the node, and the order of a spare there: programs go first."""

_ASK_SECONDS = 2.0
_MOST_AT_ONCE = 4  # nodes that are asked
_log = logging.getLogger("stoker.engine")


class Spares:
    """Knows which nodes have one. Safe to use from any thread."""

    def __init__(self, order: Callable[[Mapping[str, Any]], None] | None = None) -> None:
        """`order`: has the node of a row of Ray's start one. Raises if it does not."""
        self._order = order or order_worker
        self._due: dict[str, float] = {}  # Ray's id of a node → when one is ordered there
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE)
        self._has_failed = False

    def look(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """Order one on every node that has none. `nodes`: by name, as Ray describes them. Waits for nobody."""
        now = time.monotonic()
        alive = {row["NodeID"]: row for row in nodes.values() if row["Resources"].get("CPU")}
        for node in [node for node in self._due if node not in alive]:
            self._due.pop(node, None)
        for node in [node for node in alive if self._due.setdefault(node, now + AFTER_SECONDS) <= now]:
            self._due[node] = now + KEPT_SECONDS
            self._pool.submit(self._ask, alive[node])

    def take(self, node: str) -> None:
        """An actor is started there, which has the spare now. Another is ordered once its program has had time to start."""
        self._due[node] = time.monotonic() + AFTER_SECONDS

    def _ask(self, row: Mapping[str, Any]) -> None:
        try:
            self._order(row)
        except Exception as error:
            if not self._has_failed:  # told once, as it is nobody's fault
                self._has_failed = True
                _log.warning("Ray keeps no worker ready on its nodes, replicas start a second later: %s", error)


def order_worker(row: Mapping[str, Any]) -> None:
    """Have a node start a worker for our driver, and keep it. Raises if there is no way, or none any more."""
    import ray
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated.common_pb2 import Language
    from ray.core.generated.node_manager_pb2 import PrestartWorkersRequest
    from ray.core.generated.node_manager_pb2_grpc import NodeManagerServiceStub

    asked = PrestartWorkersRequest(
        language=Language.PYTHON,
        job_id=bytes.fromhex(ray.get_runtime_context().get_job_id()),
        num_workers=1,
        keep_alive_duration_secs=KEPT_SECONDS,
    )
    with init_grpc_channel(f"{row['NodeManagerAddress']}:{row['NodeManagerPort']}") as channel:
        NodeManagerServiceStub(channel).PrestartWorkers(asked, timeout=_ASK_SECONDS)
