"""The sampling process of this machine, as its server has it: started, read, and started again when it ends or says nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from .sample import Sample, from_line

SILENT_SECONDS = 15.0
"""A process that has said nothing for so long, and longer than a few samples take, is ended and started again."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
_LONGEST_LINE_BYTES = 1 << 20

_log = logging.getLogger("stoker.sampling")


class Feed:
    """Hands on what the process tells, in a thread of its own."""

    def __init__(self, tell: Callable[[Sample], None], *, seconds: float, command: Sequence[str] | None = None) -> None:
        """`tell`: gets every sample. `command`: what to run, if not this package's own agent."""
        self._tell = tell
        self._silent_seconds = max(SILENT_SECONDS, 5 * seconds)
        self._command = command or [sys.executable, "-m", "stoker.sampling.agent", str(seconds)]
        self._ended = threading.Event()
        self._problem = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End it, and its process."""
        self._ended.set()
        process = self._process
        if process is not None:
            process.kill()
        if self._thread.is_alive():
            self._thread.join(5)

    def problem(self) -> str:
        """Why this machine is not sampled now; empty: it is."""
        return self._problem

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._ended.is_set():
            taken = self._read_one_process()
            if self._ended.is_set():
                return
            pause = FIRST_PAUSE_SECONDS if taken > 1 else min(LONGEST_PAUSE_SECONDS, 2 * pause)
            _log.warning("%s; it is started again in %g s", self._problem, pause)
            self._ended.wait(pause)

    def _read_one_process(self) -> int:
        """Start a process and read it to its end. Returns how many samples it told."""
        try:
            process = self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            self._problem = f"this machine is not sampled: {error}"
            return 0
        taken = 0
        watch = _Silence(self._silent_seconds, process)
        try:
            assert process.stdout is not None
            with process.stdout as lines:
                while line := lines.readline(_LONGEST_LINE_BYTES):
                    watch.heard()
                    try:
                        sample = from_line(line)
                    except ValueError as error:
                        _log.warning("a line of the sampling process is passed over: %s", error)
                        continue
                    taken += 1
                    self._problem = ""
                    self._hand_on(sample)
        finally:
            watch.end()
            process.kill()
            code = process.wait()
        why = f"said nothing for {self._silent_seconds:g} s" if watch.has_ended_it else f"ended with {code}"
        self._problem = f"this machine is not sampled: the process that does it {why}"
        return taken

    def _hand_on(self, sample: Sample) -> None:
        try:
            self._tell(sample)
        except Exception:
            _log.exception("a sample is lost")


class _Silence:
    """Kills a process that says nothing for too long."""

    def __init__(self, seconds: float, process: subprocess.Popen[bytes]) -> None:
        self.has_ended_it = False
        self._seconds = seconds
        self._process = process
        self._heard = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="samples-silence", daemon=True).start()

    def heard(self) -> None:
        self._heard.set()

    def end(self) -> None:
        self._ended.set()
        self._heard.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            if not self._heard.wait(self._seconds):
                self.has_ended_it = True
                self._process.kill()
                return
            self._heard.clear()
            self._ended.wait(min(1.0, self._seconds / 4))  # not at every line
