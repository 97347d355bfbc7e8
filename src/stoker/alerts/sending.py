"""Sends what is due: each rule's deliveries one after the other, several rules at a time, and again after a pause."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace

from stoker.clock import Clock
from stoker.core.alerts import Delivery, DeliveryState, Rule
from stoker.core.errors import StokerError
from stoker.store.alerts import AlertBook

from .channel import Channel, Message, NotDelivered
from .reach import ReachOf, is_told

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 3600.0
GIVE_UP_SECONDS = 86400.0
LEAST_TRIES = 5
"""A delivery is tried so often at the least, and for a day at the least; then it is given up."""

AT_ONCE = 8

_log = logging.getLogger("stoker.alerts")


def pause_seconds(tries: int, chance: float) -> float:
    """How long to wait after so many tries that failed: twice as long each time.

    `chance`: from 0 to 1, so that not all come at the same time.
    """
    whole = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 30))
    return whole * (0.75 + 0.5 * chance)


def after_failure(tried: Delivery, now: float, why: str, chance: float) -> Delivery:
    """A delivery after a try that failed: due again later, or given up."""
    tries = tried.tries + 1
    if tries >= LEAST_TRIES and now - tried.created_at >= GIVE_UP_SECONDS:
        return replace(tried, state=DeliveryState.GIVEN_UP, tries=tries, tried_at=now, answer=why)
    return replace(tried, tries=tries, tried_at=now, answer=why, next_at=now + pause_seconds(tries, chance))


class Sending:
    """Sends in threads of its own, so that a slow receiver holds up nobody else."""

    def __init__(
        self,
        *,
        book: AlertBook,
        channels: Callable[[str], Channel],
        reach: ReachOf,
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`channels`: a channel by its name. Raises NotFound."""
        self._book = book
        self._channels = channels
        self._reach = reach
        self._clock = clock
        self._chance = chance
        self.done: Callable[[], None] = lambda: None  # called, from those threads, after each try
        self._lock = threading.Lock()
        self._served: dict[int, str] = {}  # rules that are being served, with the delivery
        self._is_closed = False

    def go_on(self) -> None:
        """Begin with what is due. Returns at once."""
        with self._lock:
            served = dict(self._served)
        room = AT_ONCE - len(served)
        for rule, delivery in self._book.due(self._clock.now(), not_of=served)[: max(0, room)]:
            with self._lock:
                if self._is_closed:
                    return
                self._served[rule.n] = delivery.id
            threading.Thread(target=self._serve, args=(rule, delivery), name="alerts-send", daemon=True).start()

    def close(self) -> None:
        """Begin with nothing more. Nobody waits for what is under way: it is tried again by the next server."""
        with self._lock:
            self._is_closed = True

    def try_once(self, rule: Rule, delivery: Delivery) -> Delivery:
        """Try a delivery now; returns it as it is after that. Nothing is written."""
        now = self._clock.now()
        reach = self._reach(rule.owner)
        if not is_told(rule, delivery.alert, reach):
            why = f"{rule.owner} may not see it any more"
            return replace(delivery, state=DeliveryState.GIVEN_UP, tried_at=now, answer=why)
        message = Message(id=delivery.id, alert=delivery.alert, rule=rule.name)
        try:
            answer = self._channels(rule.channel).send(rule.target, message, rule.secret, now)
        except NotDelivered as error:
            return after_failure(delivery, self._clock.now(), str(error), self._chance())
        except Exception as error:  # a channel of another package may raise anything
            _log.exception("alerts: the channel %s failed", rule.channel)
            return after_failure(
                delivery, self._clock.now(), f"the channel failed: {type(error).__name__}", self._chance()
            )
        tries = delivery.tries + 1
        return replace(delivery, state=DeliveryState.DELIVERED, tries=tries, tried_at=now, answer=answer)

    def _serve(self, rule: Rule, delivery: Delivery) -> None:
        try:
            self._book.note(self.try_once(rule, delivery))
        except StokerError as error:  # it will be tried again, under the same id
            _log.error("alerts: what came of a delivery could not be written: %s", error)
        except Exception:
            _log.exception("alerts: a delivery could not be tried")
        finally:
            with self._lock:
                self._served.pop(rule.n, None)
            self.done()
