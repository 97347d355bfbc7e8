"""The thread of alerts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.alerts.making import Making
from stoker.alerts.running import Alerting
from stoker.alerts.sending import Sending
from stoker.clock import SystemClock
from stoker.core.errors import Unavailable
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore
from tests.conftest import wait_until

from .builders import FakeChannel, a_rule, an_end, reach_of


class Away(AlertBook):
    """A book whose database is away for a while."""

    failures = 0

    def has_rules(self) -> bool:
        """Whether there is any."""
        if self.failures:
            self.failures -= 1
            raise Unavailable("the database is away")
        return super().has_rules()


def alerting_of(store: SqlStore, book: AlertBook, channel: FakeChannel, leads: list[bool]) -> Alerting:
    clock = SystemClock()
    making = Making(store=store, book=book, reach=reach_of(), look=lambda wanted, marks: [], clock=clock)
    sending = Sending(book=book, channels=lambda name: channel, reach=reach_of(), clock=clock)
    alerting = Alerting(making=making, sending=sending, book=book, leads=lambda: leads[0])
    sending.done = alerting.ring
    store.listen(alerting.ring)
    return alerting


def test_it_works_while_the_server_leads_and_a_database_that_is_away_ends_nothing(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "s.db")
    book, channel, leads = Away(store.database, SystemClock()), FakeChannel(), [False]
    book.add(a_rule())
    alerting = alerting_of(store, book, channel, leads)
    store.commit(an_end("j"), by="u")
    assert not alerting.round() and channel.sent == [], "another leads"
    alerting.start()
    alerting.start()
    book.failures = 2
    leads[0] = True
    alerting.ring()
    wait_until(lambda: channel.subjects == ["p/j"])
    store.commit(an_end("k"), by="u")
    wait_until(lambda: channel.subjects == ["p/j", "p/k"])
    alerting.end()
    store.commit(an_end("l"), by="u")
    assert not [thread for thread in [alerting._thread] if thread.is_alive()]
    store.close()


class Faulty(AlertBook):
    """A book with a fault."""

    asked = 0

    def has_rules(self) -> bool:
        """Whether there is any."""
        self.asked += 1
        raise KeyError("fault")


def test_a_fault_is_said_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqlStore(tmp_path / "s.db")
    book = Faulty(store.database, SystemClock())
    alerting = alerting_of(store, book, FakeChannel(), [True])
    alerting.start()
    wait_until(lambda: alerting.ring() or book.asked > 2)
    alerting.end()
    assert [record.message for record in caplog.records] == ["alerts wait: 'fault'"]
    store.close()


def test_one_that_never_began_can_be_ended(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "s.db")
    alerting_of(store, AlertBook(store.database, SystemClock()), FakeChannel(), [True]).end()
    store.close()
