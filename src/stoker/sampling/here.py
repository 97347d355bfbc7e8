"""The sampling of the server's own machine: its process, and the care for what is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from stoker.core.node import Node

from .feed import Feed
from .monitor import Monitor
from .sample import Sample

TIDY_SECONDS = 300.0


class SamplingHere:
    """Runs while the server leads."""

    def __init__(
        self, monitor: Monitor, nodes: Sequence[Node], seconds: float, command: Sequence[str] | None = None
    ) -> None:
        """`nodes`: this machine. `seconds`: from one sample to the next. `command`: see Feed."""
        self._monitor = monitor
        self._nodes = nodes
        self._feed = Feed(self._hear, seconds=seconds, command=command)
        self._ended = threading.Event()
        self._tidying = threading.Thread(target=self._tidy, name="samples-tidy", daemon=True)

    def start(self) -> None:
        """Begin."""
        if self._nodes:
            self._feed.start()
            self._tidying.start()

    def end(self) -> None:
        """End the process, and write what has come in."""
        self._ended.set()
        self._feed.end()
        if self._monitor.history is not None:
            self._monitor.history.end_minutes()

    def problem(self) -> str:
        """Why this machine is not sampled now; empty: it is."""
        return self._feed.problem()

    def _hear(self, sample: Sample) -> None:
        self._monitor.hear(self._nodes, sample)

    def _tidy(self) -> None:
        while not self._ended.wait(TIDY_SECONDS):
            if self._monitor.history is not None:
                self._monitor.history.tidy()
