"""One run of the user's program: started, listened to, stopped when asked, and never outlived by a child of its own."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional

from .lines import Lines, Log
from .processes import descendants, die_with_parent, oom_kills, signal_all, signal_group

_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 1.0


class Ended:
    """How a run ended."""

    def __init__(self, code: int, was_stopped: bool, out_of_memory: bool) -> None:
        self.code = code  # as Python gives it: -n for signal n
        self.was_stopped = was_stopped
        self.out_of_memory = out_of_memory


class Program:
    """The user's program, while it runs."""

    def __init__(self, command: List[str], environment: Dict[str, str], folder: str, log: Log) -> None:
        """Start it. Raises OSError if it cannot be started."""
        self._log = log
        self._oom_before = oom_kills()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._selector = selectors.DefaultSelector()
        for stream, name in ((self._process.stdout, "out"), (self._process.stderr, "err")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, (name, Lines()))

    @property
    def pid(self) -> int:
        """The process id, which is also its group's and session's."""
        return self._process.pid

    def wait(self, must_stop: Callable[[], bool], wake: int, grace_seconds: float) -> Ended:
        """Pass its output on until it has ended. `wake`: a file descriptor that turns readable when there is news.

        Once `must_stop`: TERM to every process, and after the grace KILL.
        """
        self._selector.register(wake, selectors.EVENT_READ, None)
        try:
            was_stopped = self._follow(must_stop, grace_seconds)
        finally:
            self._kill()  # what it left behind, in its group or out of it; the program too, if we fail
        code = self._process.returncode
        self._selector.unregister(wake)
        self._drain()
        killed_for_memory = code == -signal.SIGKILL and not was_stopped and oom_kills() > self._oom_before
        return Ended(code, was_stopped, killed_for_memory)

    def _follow(self, must_stop: Callable[[], bool], grace_seconds: float) -> bool:
        """Until it has ended. Returns whether it was told to."""
        stop_at: Optional[float] = None
        while self._process.poll() is None or (stop_at is not None and descendants()):
            self._read(_POLL_SECONDS)
            if stop_at is None and must_stop():
                stop_at = time.monotonic() + grace_seconds
                if not signal_all(signal.SIGTERM):
                    signal_group(self.pid, signal.SIGTERM)
            elif stop_at is not None and time.monotonic() >= stop_at:
                self._kill()
            _reap_orphans(self._process)
        return stop_at is not None

    def _kill(self) -> None:
        signal_group(self.pid, signal.SIGKILL)
        for _ in range(100):  # one that forks while we look is found at the next look
            if not signal_all(signal.SIGKILL):
                break
            _reap_orphans(self._process)
            time.sleep(0.005)

    def _drain(self) -> None:
        """Read what the pipes still hold. Nobody writes any more, so this ends."""
        until = time.monotonic() + _DRAIN_SECONDS
        while self._selector.get_map() and time.monotonic() < until:
            self._read(0.05)
        for key in list(self._selector.get_map().values()):
            self._close(key)

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                os.read(key.fd, 512)
                continue
            try:
                chunk = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if chunk:
                name, lines = key.data
                self._log.write_all(name, lines.feed(chunk))
            else:
                self._close(key)

    def _close(self, key: selectors.SelectorKey) -> None:
        name, lines = key.data
        self._log.write_all(name, lines.end())
        self._selector.unregister(key.fileobj)


def _reap_orphans(process: "subprocess.Popen[bytes]") -> None:
    """Collect dead orphans that we adopted, so that they are zombies no longer. Not the program: Popen collects that."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == process.pid:
            return
        os.waitpid(found.si_pid, os.WNOHANG)
