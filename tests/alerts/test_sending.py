"""Deliveries are tried, and tried again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.alerts.channel import Message
from stoker.alerts.sending import GIVE_UP_SECONDS, LEAST_TRIES, Sending, after_failure, pause_seconds
from stoker.clock import ManualClock
from stoker.core.alerts import Cursor, Delivery, DeliveryState
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore

from .builders import FakeChannel, a_rule, an_alert, reach_of


@pytest.fixture
def book(tmp_path: Path, clock: ManualClock) -> Iterator[AlertBook]:
    store = SqlStore(tmp_path / "s.db", clock)
    yield AlertBook(store.database, clock)
    store.close()


def a_delivery(**more: object) -> Delivery:
    made = Delivery(n=1, id="x" * 32, rule=1, alert=an_alert(), created_at=1e6, next_at=1e6)
    return replace(made, **more)  # type: ignore[arg-type]


def test_pauses_double_up_to_an_hour_and_are_spread() -> None:
    assert [pause_seconds(n, 0.5) for n in (1, 2, 3, 9, 10, 500)] == [10, 20, 40, 2560, 3600, 3600]
    assert (pause_seconds(1, 0.0), pause_seconds(1, 1.0)) == (7.5, 12.5)


def test_what_fails_is_due_again_later_and_given_up_after_a_day() -> None:
    once = after_failure(a_delivery(), 1e6 + 1, "503", 0.5)
    assert (once.state, once.tries, once.tried_at, once.next_at) == (DeliveryState.PENDING, 1, 1e6 + 1, 1e6 + 11)
    late = 1e6 + GIVE_UP_SECONDS
    assert after_failure(a_delivery(tries=LEAST_TRIES - 2), late, "503", 0.5).state is DeliveryState.PENDING
    assert after_failure(a_delivery(tries=99), late - 1, "503", 0.5).state is DeliveryState.PENDING
    over = after_failure(a_delivery(tries=LEAST_TRIES - 1), late, "503", 0.5)
    assert (over.state, over.tries, over.answer, over.id) == (DeliveryState.GIVEN_UP, LEAST_TRIES, "503", "x" * 32)


class Sent:
    """A book with deliveries, and a sender that is waited for."""

    def __init__(self, book: AlertBook, clock: ManualClock, channel: FakeChannel, *, count: int = 1) -> None:
        self.book, self.clock, self.channel = book, clock, channel
        rule = book.add(a_rule())
        book.move(book.cursor(), Cursor(position=1), [(rule, an_alert(job=f"p/{n}")) for n in range(count)])
        self.is_done = threading.Semaphore(0)
        self.sending = self.make()

    def make(self, **users: None) -> Sending:
        made = Sending(
            book=self.book,
            channels=lambda name: self.channel,
            reach=reach_of(**users),
            clock=self.clock,
            chance=lambda: 0.5,
        )
        made.done = self.is_done.release
        return made

    def go_on(self) -> None:
        """A round in which one delivery is tried, to its end."""
        self.sending.go_on()
        assert self.is_done.acquire(timeout=30)

    def states(self) -> dict[DeliveryState, int]:
        return {state: count for (_, state), count in self.book.counts().items()}


def test_it_is_tried_until_it_is_taken_under_one_id(book: AlertBook, clock: ManualClock) -> None:
    sent = Sent(book, clock, FakeChannel(failures=2))
    sent.go_on()
    assert book.last([1])[1].answer == "503 away" and sent.states() == {DeliveryState.PENDING: 1}
    id = book.last([1])[1].id
    sent.sending.go_on()
    assert not sent.is_done.acquire(blocking=False), "it is not due yet"
    clock.advance(10)
    sent.go_on()
    clock.advance(20)
    sent.go_on()
    assert [message.id for message in sent.channel.sent] == [id]
    assert sent.states() == {DeliveryState.DELIVERED: 1}
    last = book.last([1])[1]
    assert (last.tries, last.answer, last.tried_at) == (3, "200 OK", 1e6 + 30)


def test_one_after_the_other(book: AlertBook, clock: ManualClock) -> None:
    sent = Sent(book, clock, FakeChannel(), count=3)
    for _ in range(3):
        sent.go_on()
    assert sent.channel.subjects == ["p/0", "p/1", "p/2"]


def test_what_may_not_be_seen_any_more_is_not_sent(book: AlertBook, clock: ManualClock) -> None:
    sent = Sent(book, clock, FakeChannel())
    sent.sending = sent.make(ada=None)
    sent.go_on()
    assert sent.channel.sent == [] and sent.states() == {DeliveryState.GIVEN_UP: 1}
    assert book.last([1])[1].answer == "ada may not see it any more"


class Breaking(FakeChannel):
    """A channel with a fault."""

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        raise KeyError("a secret of the channel's")


def test_a_channel_with_a_fault_fails_and_tells_no_more(
    book: AlertBook, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    sent = Sent(book, clock, Breaking())
    sent.go_on()
    assert book.last([1])[1].answer == "the channel failed: KeyError"
    assert "the channel fake failed" in caplog.text


class Stuck(FakeChannel):
    """A receiver that is slow for one, and takes the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        if target == "slow":
            self.goes_on.wait(30)
        return super().send(target, message, secret, now)


def test_a_slow_receiver_holds_up_nobody_else(book: AlertBook, clock: ManualClock) -> None:
    slow, quick = book.add(a_rule("slow", target="slow")), book.add(a_rule("quick"))
    channel = Stuck()
    made = [(rule, an_alert(job=f"p/{rule.name}{n}")) for n in range(2) for rule in (slow, quick)]
    book.move(book.cursor(), Cursor(position=1), made)
    is_done = threading.Semaphore(0)
    sending = Sending(book=book, channels=lambda name: channel, reach=reach_of(), clock=clock)
    sending.done = is_done.release
    for _ in range(2):
        sending.go_on()
        assert is_done.acquire(timeout=30)
    assert channel.subjects == ["p/quick0", "p/quick1"]
    channel.goes_on.set()
    assert is_done.acquire(timeout=30)
    sending.go_on()
    assert is_done.acquire(timeout=30)
    assert channel.subjects[2:] == ["p/slow0", "p/slow1"]


def test_one_that_is_closed_begins_with_nothing_more(book: AlertBook, clock: ManualClock) -> None:
    sent = Sent(book, clock, FakeChannel())
    sent.sending.close()
    sent.sending.go_on()
    assert sent.states() == {DeliveryState.PENDING: 1} and sent.channel.sent == []
