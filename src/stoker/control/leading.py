"""One server leads, others stand by: they answer what is asked, decide nothing, and one of them takes over when it is gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stoker.core.errors import StokerError, Unavailable
from stoker.store.base import Leader, Store
from stoker.store.lead import Lead

from .loop import Loop

LOOK_SECONDS = 1.0
"""How often who leads makes sure of it, and who stands by tries."""

_log = logging.getLogger("stoker")


class Leading:
    """Keeps this server in its role. Safe to ask from any thread."""

    def __init__(
        self,
        *,
        lead: Lead,
        store: Store,
        loop: Loop,
        who: str,
        began: Callable[[], None],
        looked: Callable[[], None],
        kept: Callable[[], None] = lambda: None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`who`: our address. `began` is called whenever we have taken the lead, `looked` after every look while we have not,
        `kept` after every look while we have.
        """
        self._lead = lead
        self._store = store
        self._loop = loop
        self._who = who
        self._began = began
        self._looked = looked
        self._kept = kept
        self._look_seconds = look_seconds
        self._is_leading = False
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leading", daemon=True)

    def leads(self) -> bool:
        """Whether this server may write."""
        return self._is_leading and self._lead.is_sure()

    def begin(self) -> None:
        """The lock is ours: count up the term, take over what is there, let the loop run."""
        term = self._store.lead(self._who)
        self._began()  # before the loop's first round: it may start what nobody has heard of before
        self._loop.start(term)
        self._is_leading = True

    def start(self) -> None:
        """Look after it in a thread of its own, until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the loop, and let another lead."""
        self._is_ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._step_down()

    def _watch(self) -> None:
        said = ""
        while not self._is_ending.wait(self._look_seconds):
            try:
                if self._is_leading:
                    self._make_sure()
                else:
                    self._looked()
                    self._try()
                said = ""
            except StokerError as error:
                if error.message != said:
                    _log.error("%s", error)
                said = error.message
            except Exception:
                _log.exception("who leads cannot be told; it is looked at again")

    def _make_sure(self) -> None:
        if not self._lead.confirm() or not self._loop.runs:
            _log.error("%s leads no more, and stands by", self._who)
            self._step_down()
        else:
            self._kept()

    def _try(self) -> None:
        if self._lead.take(over=True):
            try:
                self.begin()
            except Exception:
                self._step_down()
                raise
            _log.warning("%s leads now", self._who)

    def _step_down(self) -> None:
        self._is_leading = False
        self._loop.stop()
        self._lead.release()


def not_leading(leader: Leader | None) -> Unavailable:
    """The refusal of who stands by."""
    who = f"the one at {leader.who} leads" if leader else "none leads yet"
    fix = f"send it to {leader.who}; if that one is gone, ask again in a few seconds" if leader else "ask again"
    return Unavailable(f"this server stands by and changes nothing: {who}", fix=fix)
