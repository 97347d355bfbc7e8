"""One run of the user's program: started, listened to, stopped when asked, and never outlived by a child of its own."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from typing import IO, Callable, Container, Dict, List, Mapping, Optional, Sequence, cast

from .lines import Log
from .output_limit import CUT_READ_SECONDS, Output, OutputLimit
from .processes import descendants, oom_kills, signal_all, signal_group
from .sandbox import Sandbox

_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 1.0
_NOTE_SECONDS = 1.0


class Ended:
    """How a run ended."""

    def __init__(self, code: int, was_stopped: bool, out_of_memory: bool) -> None:
        self.code = code  # as Python gives it: -n for signal n
        self.was_stopped = was_stopped
        self.out_of_memory = out_of_memory


class Program:
    """The user's program, while it runs."""

    def __init__(
        self,
        command: List[str],
        environment: Dict[str, str],
        folder: str,
        log: Log,
        sandbox: Sandbox,
        readable: Sequence[str] = (),
        limit: Optional[OutputLimit] = None,
    ) -> None:
        """Start it. `readable`: of Stoker's own folders, what it is to see. `limit`: what is kept of its output.

        Raises OSError if it cannot be started.
        """
        self._oom_before = oom_kills()
        self._sandbox = sandbox
        self._note_at = time.monotonic()
        files = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        self._process = spawn(command, environment, folder, sandbox, readable, files)
        self._selector = selectors.DefaultSelector()
        for stream, name in ((self._process.stdout, "out"), (self._process.stderr, "err")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, Output(name, log, limit or OutputLimit()))

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
        code = self._sandbox.code(self._process.returncode)
        self._selector.unregister(wake)
        self._drain()
        killed_for_memory = code == -signal.SIGKILL and not was_stopped and oom_kills() > self._oom_before
        return Ended(code, was_stopped, killed_for_memory)

    def kill(self) -> None:
        """End it now, with all that it has started."""
        self._kill()

    def _follow(self, must_stop: Callable[[], bool], grace_seconds: float) -> bool:
        """Until it has ended. Returns whether it was told to."""
        stop_at: Optional[float] = None
        is_told = False
        while self._process.poll() is None or (stop_at is not None and descendants()):
            self._read(_POLL_SECONDS)
            self._note_processes()
            for key in self._selector.get_map().values():
                if key.data is not None:
                    key.data.look()
            if stop_at is None and must_stop():
                stop_at = time.monotonic() + grace_seconds
            if stop_at is not None and not is_told:
                is_told = self._tell()
            elif stop_at is not None and time.monotonic() >= stop_at:
                self._kill()
            reap_orphans({self.pid})
        return stop_at is not None

    def _tell(self) -> bool:
        """TERM to every process. Returns whether the program was there: a sandbox is made before it, and may still be alone."""
        if not self._sandbox.level:
            if not signal_all(signal.SIGTERM):
                signal_group(self.pid, signal.SIGTERM)
            return True
        # Of a sandbox the outermost process only waits: a signal to it would end all the others at once.
        return bool(signal_all(signal.SIGTERM, frozenset([self.pid, *self._sandbox.own_processes])))

    def _note_processes(self) -> None:
        """Now and then, should we be killed."""
        if self._sandbox.needs_notes and time.monotonic() >= self._note_at:
            self._note_at = time.monotonic() + _NOTE_SECONDS
            self._sandbox.note_processes(descendants())

    def _kill(self) -> None:
        """Until none is left, however long that takes: one in the midst of a system call still holds its devices."""
        if self._process.returncode is None or not os.path.isdir("/proc/self"):
            signal_group(self.pid, signal.SIGKILL)
        pause = 0.005
        while signal_all(signal.SIGKILL):  # one that forks while we look is found at the next look
            reap_orphans({self.pid})
            time.sleep(pause)
            pause = min(_POLL_SECONDS, pause * 1.1)

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
            if not chunk:
                self._close(key)
                continue
            key.data.feed(chunk)
            if key.data.is_cut:
                time.sleep(CUT_READ_SECONDS)

    def _close(self, key: selectors.SelectorKey) -> None:
        key.data.end()
        self._selector.unregister(key.fileobj)
        cast(IO[bytes], key.fileobj).close()


def spawn(
    command: List[str],
    environment: Mapping[str, str],
    folder: str,
    sandbox: Sandbox,
    readable: Sequence[str],
    files: Sequence[int],
) -> "subprocess.Popen[bytes]":
    """Start what the user wants to run. `files`: its input, output and errors. Raises OSError if it cannot be started."""
    return sandbox.start(
        lambda mounts, told: sandbox.program(command, environment, folder, readable, mounts, told=told),
        cwd=folder,
        env=sandbox.outer(environment),
        stdin=files[0],
        stdout=files[1],
        stderr=files[2],
    )


def reap_orphans(own: Container[int]) -> None:
    """Collect dead orphans that we adopted, so that they are zombies no longer. Not our own: Popen collects those."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        os.waitpid(found.si_pid, os.WNOHANG)
