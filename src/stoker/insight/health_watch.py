"""Looks after the health of machines: one that fails is given nothing new, and gets work again when it passes.

Never too many at once: if a tenth of the machines fail within an hour, something else is wrong, and somebody is to look. What an
admin lets back although it fails stays, until it fails in another way.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from stoker.clock import Clock
from stoker.core.node import Node, NodeState
from stoker.core.world import World
from stoker.sampling.monitor import GpuNow, Monitor

from .health import Check, Seen, Verdict, checks
from .holders import holders_of
from .live_world import LiveWorld

BY = "health"
"""Who cordons: so that nobody else's cordon is taken back."""

LOOK_SECONDS = 15.0
LOOKS = 2
"""A machine has failed, or passes again, when so many looks in a row say so."""

HOUR, MOST_SHARE = 3600.0, 0.1

_log = logging.getLogger("stoker.insight")


class HealthWatch:
    """One site's."""

    def __init__(
        self,
        *,
        monitor: Monitor,
        live: LiveWorld,
        clock: Clock,
        cordon: Callable[[str, str], None],
        uncordon: Callable[[str], None],
    ) -> None:
        """`cordon`: called with a node and why; `uncordon`: with a node."""
        self._monitor = monitor
        self._live = live
        self._clock = clock
        self._cordon = cordon
        self._uncordon = uncordon
        self._failed: dict[str, int] = {}  # node → looks in a row
        self._passed: dict[str, int] = {}
        self._ours: set[str] = set()
        self._accepted: dict[str, frozenset[tuple[str, str]]] = {}  # what an admin has let back, by what failed
        self._cordoned_at: deque[float] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Begin, if anything is sampled."""
        if self._monitor.history is not None:
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def checks(self, node: str) -> list[Check]:
        """The checks of one machine now. Raises KeyError."""
        with self._live.look() as world:
            found = world.nodes[node]
        return checks(self._seen(found, self._gpus()))

    def look(self) -> None:
        """Look at every machine that is sampled, and do what follows."""
        with self._live.look() as world:
            nodes = [node for node in world.nodes.values() if not node.virtual and node.state is NodeState.UP]
            by = {name: _cordoned_by(world, name) for name in world.nodes}
        gpus = self._gpus()
        for node in nodes:
            if self._monitor.host(node.name):
                failed = [check for check in checks(self._seen(node, gpus)) if check.verdict is Verdict.FAIL]
                self._judge(node, by[node.name], failed, len(nodes))

    def _judge(self, node: Node, cordoned_by: str, failed: Sequence[Check], count: int) -> None:
        name, what = node.name, frozenset((check.gpu, check.name) for check in failed)
        self._failed[name] = self._failed.get(name, 0) + 1 if failed else 0
        self._passed[name] = 0 if failed else self._passed.get(name, 0) + 1
        if cordoned_by == BY:
            self._ours.add(name)
            if self._passed[name] >= LOOKS:
                _log.info("%s passes its checks again, and is given work", name)
                self._ours.discard(name)
                self._uncordon(name)
            return
        if name in self._ours:  # somebody has let it back
            self._ours.discard(name)
            self._accepted[name] = what
        if not failed:
            self._accepted.pop(name, None)
        elif not cordoned_by and self._failed[name] >= LOOKS and not what <= self._accepted.get(name, frozenset()):
            self._take_out(name, failed, count)

    def _take_out(self, name: str, failed: Sequence[Check], count: int) -> None:
        now, first = self._clock.now(), failed[0]
        while self._cordoned_at and self._cordoned_at[0] < now - HOUR:
            self._cordoned_at.popleft()
        which = f"GPU {first.gpu}: " if first.gpu else ""
        why = f"{which}{first.name}: {first.text}" + (f" (and {len(failed) - 1} more)" if failed[1:] else "")
        if len(self._cordoned_at) >= max(1, int(MOST_SHARE * count)):
            _log.error("%s fails its checks (%s), and too many machines have failed within an hour", name, why)
            return
        _log.warning("%s fails its checks, and is given nothing new: %s", name, why)
        self._cordoned_at.append(now)
        self._cordon(name, why)

    def _gpus(self) -> Mapping[str, Sequence[GpuNow]]:
        found: dict[str, list[GpuNow]] = {}
        for gpu in self._monitor.gpus():
            found.setdefault(gpu.node, []).append(gpu)
        return found

    def _seen(self, node: Node, gpus: Mapping[str, Sequence[GpuNow]]) -> Seen:
        ours = gpus.get(node.name, ())
        return Seen(
            devices=[uuid for uuid in node.devices if _is_driver_s(uuid)],
            gpus=[gpu.reading for gpu in ours],
            processes=[process for gpu in ours for process in gpu.processes],
            held=frozenset(self._live.made(holders_of)),
            xids=[xid for name, xid in self._monitor.errors() if name == node.name],
            host=self._monitor.host(node.name) or None,
            now=self._clock.now(),
        )

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                _log.exception("the health of machines cannot be looked at now")


def _is_driver_s(uuid: str) -> bool:
    """Whether a device is one that a driver reads; declared ones have numbers for names."""
    return uuid.startswith(("GPU-", "MIG-"))


def _cordoned_by(world: World, name: str) -> str:
    record = world.records.get(name)
    return record.cordon.by if record is not None and record.cordon is not None else ""
