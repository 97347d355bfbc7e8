"""The lease of one replica: it may run for as long as it renews.

It renews by an answer of Stoker's server, or, where that does not answer, by a witness. A witness is a part of the engine that,
as long as it answers here, also tells the server that this node is alive: so a server that alone is away ends nobody. Who can
reach neither for the length of the lease is cut off, and ends itself: from then on Stoker may start the job elsewhere. Other
replicas are no witnesses: two that are cut off together would keep each other alive.

All is counted from before the question to the answer, and by a clock that goes on while the machine sleeps: what was stopped
for longer than its lease ends as soon as it wakes.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .processes import signal_all
from .server import Refused, Unacceptable, Unreachable

GRACE_PART = 1 / 12
"""Of the lease: so long the program may take to end once it is over. The server waits a third longer than the lease."""

_ANSWER_PART = 1 / 12  # of the lease: so long each is given to answer, or a server that hangs would use all of it up
_BEATS = 3  # so often within its lease a replica renews
_WATCH_SECONDS = 0.2
_GRANT_SECONDS = 0.02
_KILL = 9


def boot_seconds() -> float:
    """Seconds since boot, those in which the machine slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """The lease of one replica; of one that has none, which is never over."""

    def __init__(
        self,
        request: "Optional[Dict[str, Any]]",
        beat: "Callable[[float], Dict[str, Any]]",
        stop: "Callable[[], None]",
        clock: "Callable[[], float]" = boot_seconds,
    ) -> None:
        """`request`: {seconds, witnesses}. `beat` asks the server within so many seconds; `stop` is called if it says so."""
        self._seconds: float = request["seconds"] if request else 0.0
        self._witnesses: List[str] = request["witnesses"] if request else []
        self._beat = beat
        self._stop = stop
        self._clock = clock
        self._renewed_at = clock()
        self._is_granted = False
        self._is_refused = False
        self._is_over = False

    def start(self) -> None:
        """Renew from now on, in the background; and when it is over, end what is below this process."""
        if self._seconds:
            threading.Thread(target=self._renew_for_ever, name="lease", daemon=True).start()
            # A thread of its own, which asks nobody: name look-ups and full disks stop it not.
            threading.Thread(target=self._end_in_time, name="warden", daemon=True).start()

    def wait_for_grant(self, give_up: "Callable[[], bool]") -> None:
        """Wait until the server itself has answered once: what is started late may be started in vain. Or until told so."""
        while self._seconds and not self._is_granted and not self.is_over and not give_up():
            time.sleep(_GRANT_SECONDS)

    @property
    def is_over(self) -> bool:
        """Whether the replica must not run any more. Once over it stays so, whoever answers later."""
        if self._seconds and (self._is_refused or self._clock() >= self._renewed_at + self._seconds):
            self._is_over = True
        return self._is_over

    @property
    def why(self) -> str:
        """Why it is over."""
        if self._is_refused:
            return "the server says that its attempt is over"
        named = f" nor {' nor '.join(self._witnesses)}" if self._witnesses else ""
        return f"it reached neither the server{named} for {self._seconds:g} s and ended itself"

    def renew(self) -> bool:
        """Ask once. Returns whether anybody answered in time."""
        began = self._clock()
        if self._is_answered() and not self.is_over:
            self._renewed_at = began
            return True
        return False

    def _is_answered(self) -> bool:
        timeout = self._seconds * _ANSWER_PART
        try:
            if self._beat(timeout).get("stop"):
                self._stop()
        except Unacceptable:
            pass  # but it has answered
        except Refused:
            self._is_refused = True
            return False
        except Unreachable:
            return any(_answers(witness, timeout) for witness in self._witnesses)
        self._is_granted = True
        return True

    def _renew_for_ever(self) -> None:
        pause = self._seconds / _BEATS
        while not self.is_over:
            began = self._clock()
            wait = pause if self.renew() else pause / 4
            time.sleep(max(_GRANT_SECONDS, began + wait - self._clock()))

    def _end_in_time(self) -> None:
        """Whatever else hangs, what runs below us has ended soon after the lease."""
        while not self._must_be_gone():
            time.sleep(_WATCH_SECONDS)
        while True:
            signal_all(_KILL)
            time.sleep(_WATCH_SECONDS)

    def _must_be_gone(self) -> bool:
        return self.is_over and (
            self._is_refused or self._clock() >= self._renewed_at + self._seconds * (1 + GRACE_PART)
        )


def _answers(witness: str, timeout: float) -> bool:
    """Whether a witness can be reached: `host:port`, or several joined by `+`, of which all have to answer."""
    for address in witness.split("+"):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
        except (OSError, ValueError):
            return False
    return True
