"""The thread of alerts: runs while the server leads. Nothing waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stoker.core.errors import StokerError
from stoker.store.alerts import AlertBook

from .making import Making
from .sending import Sending

ROUND_SECONDS = 1.0
"""The longest from one round to the next."""

SHORTEST_SECONDS = 0.2
"""And the shortest, however much happens."""

TIDY_ROUNDS = 3600

_log = logging.getLogger("stoker.alerts")


class Alerting:
    """Makes alerts and has them sent, in a thread of its own."""

    def __init__(self, *, making: Making, sending: Sending, book: AlertBook, leads: Callable[[], bool]) -> None:
        """`leads`: whether this server may write now."""
        self._making = making
        self._sending = sending
        self._book = book
        self._leads = leads
        self._is_ended = threading.Event()
        self._bell = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._thread.ident is None:
            self._thread.start()

    def ring(self, _position: int = 0) -> None:
        """Something has happened."""
        self._bell.set()

    def end(self) -> None:
        """End the thread. What is not sent is sent by the next server."""
        self._is_ended.set()
        self._bell.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._sending.close()

    def round(self) -> bool:
        """Make what is to be made, begin to send what is due. Returns whether there is more to make."""
        if not self._leads():
            self._making.forget()
            return False
        more = self._making.go_on()
        self._sending.go_on()
        return more

    def _run(self) -> None:
        rounds = 0
        while not self._is_ended.is_set():
            more = self._try_round()
            rounds += 1
            if rounds % TIDY_ROUNDS == 0 and self._leads():
                self._try(self._book.tidy)
            if not more:
                self._bell.wait(ROUND_SECONDS)
            self._bell.clear()
            self._is_ended.wait(SHORTEST_SECONDS)

    def _try_round(self) -> bool:
        more = False

        def round_of_ours() -> None:
            nonlocal more
            more = self.round()

        self._try(round_of_ours)
        return more

    def _try(self, what: Callable[[], object]) -> None:
        try:
            what()
            self._said = ""
        except Exception as error:
            if repr(error) != self._said:  # said once, however often it is tried again
                _log.error("alerts wait: %s", error, exc_info=not isinstance(error, StokerError))
            self._said = repr(error)
