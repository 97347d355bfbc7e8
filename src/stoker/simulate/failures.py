"""Nodes that fail and come back, drawn so that every policy meets the same failures at the same moments."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How often each node fails, and for how long it is gone."""

    mean_seconds: float  # from a repair to the next failure of one node, exponentially distributed (its MTBF)
    repair_seconds: float = 3600.0


class Outages:
    """Which nodes are down, as time goes on. What happens to a node depends on the seed and its name alone."""

    def __init__(self, failures: Failures, nodes: Iterable[str], seed: int) -> None:
        self._failures = failures
        self._seed = seed
        self._counts: dict[str, int] = {}
        self.down: dict[str, float] = {}  # node → when it failed
        self._coming: list[tuple[float, str, bool]] = []  # moment, node, whether it fails then or comes back
        for node in nodes:
            self._draw(node, 0.0)

    @property
    def next_at(self) -> float:
        """When the next node fails or comes back."""
        return self._coming[0][0] if self._coming else NEVER

    def pass_until(self, now: float) -> dict[str, float]:
        """Let everything happen up to a moment. Returns the nodes that failed, each with when it last did."""
        failed: dict[str, float] = {}
        while self._coming and self._coming[0][0] <= now:
            at, node, fails = heapq.heappop(self._coming)
            if fails:
                failed[node] = self.down[node] = at
                heapq.heappush(self._coming, (at + self._failures.repair_seconds, node, False))
            else:
                del self.down[node]
                self._draw(node, at)
        return failed

    def _draw(self, node: str, since: float) -> None:
        """When a node that is up will fail. A generator of its own for each draw: nothing has to be kept of a node."""
        count = self._counts[node] = self._counts.get(node, 0) + 1
        share = random.Random(f"{self._seed}/{node}/{count}").random()
        heapq.heappush(self._coming, (since - math.log1p(-share) * self._failures.mean_seconds, node, True))
