"""Reads a machine and its GPUs every second. A driver that does not answer holds up its own readings alone.

Each reader of GPUs has a thread. What it has found last is taken along; where it has found nothing for a while, its GPUs are said
to be stuck until it answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.gpu.reading import Fault, GpuProcess, Reader, Reading, Xid

from .host import HostReader
from .sample import Sample

PROCESS_SECONDS = 5.0
SLOW_SECONDS = 60.0
STUCK_SECONDS = 5.0
"""A driver that has not answered for so long is stuck."""


class Sampler:
    """One machine's."""

    def __init__(
        self,
        readers: Sequence[Reader],
        *,
        seconds: float = 1.0,
        stuck_seconds: float = STUCK_SECONDS,
        host: HostReader | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`seconds`: from one sample to the next. `stuck_seconds`: a driver that has not answered for so long is stuck."""
        self._seconds = seconds
        self._host = host or HostReader()
        self._clock = clock
        self._ended = threading.Event()
        self._threads = [_Reading(reader, seconds, stuck_seconds, self._ended) for reader in readers]

    def run(self, tell: Callable[[Sample], None]) -> None:
        """Tell of a sample every second, until `end` is called or `tell` raises. What could not be taken in time is left out."""
        for thread in self._threads:
            thread.start()
        due = time.monotonic()
        while not self._ended.is_set():
            tell(self.take())
            due = max(due + self._seconds, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def take(self) -> Sample:
        """The machine now."""
        gpus: list[Reading] = []
        processes: list[GpuProcess] | None = None
        errors: list[Xid] = []
        for thread in self._threads:
            found = thread.newest()
            gpus += found[0]
            errors += found[2]
            if found[1] is not None:
                processes = [*(processes or []), *found[1]]
        return Sample(at=self._clock(), host=self._host.read(), gpus=gpus, processes=processes, errors=errors)

    def end(self) -> None:
        """Take no more. A driver that is stuck is left to itself: its thread ends with the process."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * self._seconds)


class _Reading(threading.Thread):
    """Reads the GPUs of one driver."""

    def __init__(self, reader: Reader, seconds: float, stuck_seconds: float, ended: threading.Event) -> None:
        super().__init__(name="gpus", daemon=True)
        self._reader = reader
        self._seconds = seconds
        self._stuck_seconds = stuck_seconds
        self._ended = ended
        self._lock = threading.Lock()
        self._readings: Sequence[Reading] = ()
        self._processes: Sequence[GpuProcess] | None = None
        self._errors: list[Xid] = []
        self._answered_at = time.monotonic()

    def newest(self) -> tuple[list[Reading], Sequence[GpuProcess] | None, list[Xid]]:
        """The last readings; processes and errors, if they are news."""
        with self._lock:
            processes, self._processes = self._processes, None
            errors, self._errors = self._errors, []
            silent = time.monotonic() - self._answered_at
            if silent <= self._seconds + self._stuck_seconds:
                return list(self._readings), processes, errors
            problem = f"the driver has not answered for {silent:.0f} s"
            stuck = [replace(found, values={}, fault=Fault.STUCK, problem=problem) for found in self._readings]
            return stuck, processes, errors

    def run(self) -> None:
        """Read, again and again."""
        due = time.monotonic()
        slow_due = processes_due = due
        while not self._ended.is_set():
            now = time.monotonic()
            is_slow = now >= slow_due
            readings = self._reader.read(slow=is_slow)
            processes = self._reader.processes() if now >= processes_due else None
            errors = self._reader.errors()
            if is_slow:
                slow_due = now + SLOW_SECONDS
            with self._lock:
                self._readings, self._answered_at = readings, time.monotonic()
                self._errors += errors
                if processes is not None:
                    self._processes, processes_due = processes, now + PROCESS_SECONDS
            due = max(due + self._seconds, time.monotonic())
            self._ended.wait(due - time.monotonic())
        self._reader.close()
