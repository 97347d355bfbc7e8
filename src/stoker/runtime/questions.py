"""What a job's user asks of its replicas while they run: to be looked into, or to be interrupted, as a drill does.

The engine puts the question into the replica's folder (`Engine.ask`), the newest over those before.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Callable, Dict, List

from .lines import Log

_SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}


class Questions:
    """The questions to one replica."""

    def __init__(
        self, ask_file: str, beat_folder: str, log: Log, replica: str, processes: Callable[[], List[int]]
    ) -> None:
        """`processes`: the ids of all of the program's."""
        from .profile import Profiler

        self._ask_file = ask_file
        self._log = log
        self._replica = replica
        self._processes = processes
        self._profiler = Profiler(beat_folder, log, processes)
        self._stamp = 0

    def look(self) -> None:
        """Begin with a question that is new. Costs next to nothing if none is."""
        try:
            stamp = os.stat(self._ask_file).st_mtime_ns
            if stamp == self._stamp:
                return
            with open(self._ask_file, encoding="utf-8") as file:
                asked: Dict[str, Any] = json.load(file)
            if "signal" in asked:
                self._interrupt(asked)
            elif not self._profiler.begin(str(asked["id"]), float(asked["seconds"])):
                return  # it looks already: this one comes next
        except OSError:
            return
        except (ValueError, KeyError, TypeError):
            pass  # it will not become better
        self._stamp = stamp

    def _interrupt(self, asked: Dict[str, Any]) -> None:
        if self._replica not in asked["replicas"]:
            return
        number = _SIGNALS[asked["signal"]]
        self._log.write("service", f"{number.name}, as was asked for")
        for pid in self._processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it has gone by itself
