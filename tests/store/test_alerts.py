"""Alerts in the database, on each kind of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.core.alerts import Cursor, Delivery, DeliveryState
from stoker.core.errors import AlreadyExists, NotFound
from stoker.store import alerts as a
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore
from tests.alerts.builders import a_rule, an_alert, an_end


@pytest.fixture
def store(database: Path | str, clock: ManualClock) -> Iterator[SqlStore]:
    made = SqlStore(database, clock)
    yield made
    made.close()


@pytest.fixture
def book(store: SqlStore, clock: ManualClock) -> AlertBook:
    return AlertBook(store.database, clock)


def deliver(book: AlertBook, *subjects: str, at: float = 1_000_000.0) -> bool:
    """Let something befall jobs."""
    before = book.cursor()
    after = replace(before, position=before.position + 1)
    (rule, *_) = book.rules()
    return book.move(before, after, [(rule, an_alert(job=subject, at=at)) for subject in subjects])


def waiting(book: AlertBook, now: float = 2e6) -> list[str]:
    return [delivery.alert.subject for _, delivery in book.due(now)]


def test_a_rule_is_kept_as_it_is_and_removed(book: AlertBook, store: SqlStore) -> None:
    store.commit(an_end("j"), by="u")
    assert not book.has_rules()
    made = book.add(a_rule(secret="whsec_x", project="p", jobs="t*", everyone=True))
    assert (made.since, made.created_at, made.n > 0) == (2, 1_000_000.0, True) and book.has_rules()
    assert book.rules() == book.rules("ada") == [made] == [book.rule("ada", "r")] and book.rules("bob") == []
    with pytest.raises(AlreadyExists, match="a rule 'r' already"):
        book.add(a_rule())
    with pytest.raises(NotFound, match="no rule 'r'"):
        book.remove("bob", "r")
    deliver(book, "p/j")
    book.remove("ada", "r")
    assert book.rules() == [] and waiting(book) == [] and book.counts() == {}
    assert book.add(a_rule()).n > made.n, "a number is never given again"


def test_names_are_ones_own_and_rules_are_bounded(book: AlertBook) -> None:
    for n in range(a.MOST_RULES_OF_ONE):
        book.add(a_rule(f"r{n}"))
    with pytest.raises(AlreadyExists, match="100 rules"):
        book.add(a_rule())
    book.add(a_rule("r1", "bob"))


def test_the_first_rule_begins_at_the_end_of_the_story(book: AlertBook, store: SqlStore) -> None:
    store.commit(an_end("j"), by="u")
    assert book.cursor() == Cursor(position=2)
    book.add(a_rule())
    store.commit(an_end("k"), by="u")
    book.add(a_rule("second"))
    assert book.cursor() == Cursor(position=2)
    book.remove("ada", "r"), book.remove("ada", "second")
    book.add(a_rule("third"))
    assert book.cursor() == Cursor(position=4), "what was meanwhile concerns nobody"


def test_the_cursor_moves_with_what_was_found_or_not_at_all(book: AlertBook) -> None:
    rule = book.add(a_rule())
    first, second = Cursor(position=0), Cursor(position=9, marks=frozenset({"disk-low"}))
    assert book.move(first, second, [(rule, an_alert())])
    assert book.cursor() == second and waiting(book) == ["p/j"]
    assert not book.move(first, Cursor(position=5), [(rule, an_alert(job="p/k"))]), "another server was here"
    assert not book.move(Cursor(position=9), Cursor(position=10), [(rule, an_alert(job="p/k"))]), "with other marks"
    assert not book.move(replace(second, position=8), Cursor(position=10), [(rule, an_alert(job="p/k"))])
    assert book.cursor() == second and waiting(book) == ["p/j"]
    book.remove("ada", "r")
    assert book.move(second, first, [(rule, an_alert(job="p/l"))]) and waiting(book) == [], "the rule is gone"


def test_repeats_are_left_out_for_half_an_hour(book: AlertBook) -> None:
    book.add(a_rule())
    for at in (0.0, 1799.0, 1800.0, 3599.0):
        deliver(book, "p/j", at=1e6 + at)
    deliver(book, "p/k", at=1e6 + 1)
    assert book.counts() == {(1, DeliveryState.PENDING): 3}
    times = []
    while due := book.due(2e6):
        ((_, first),) = due
        times.append((first.alert.subject, first.alert.at - 1e6))
        book.note(replace(first, state=DeliveryState.DELIVERED))
    assert times == [("p/j", 0.0), ("p/j", 1800.0), ("p/k", 1.0)]


def test_of_each_rule_the_oldest_is_due(book: AlertBook) -> None:
    one, other = book.add(a_rule()), book.add(a_rule("other", "bob"))
    cursor = book.cursor()
    alerts = [(rule, an_alert(job=f"p/{name}")) for rule in (other, one) for name in ("j", "k")]
    book.move(cursor, Cursor(position=1), alerts)
    assert [(rule.name, d.alert.subject) for rule, d in book.due(1e6)] == [("other", "p/j"), ("r", "p/j")]
    assert [rule.name for rule, _ in book.due(1e6, not_of=[one.n])] == ["other"]
    assert book.due(999_999.0) == []
    ids = {delivery.id for _, delivery in book.due(1e6)}
    assert len(ids) == 2 and all(len(id) == 32 for id in ids)


def test_a_failure_holds_up_what_else_the_rule_tells(book: AlertBook) -> None:
    book.add(a_rule())
    deliver(book, "p/j", "p/k")
    ((_, first),) = book.due(1e6)
    book.note(replace(first, next_at=1e6 + 10, tries=1, answer="503"))
    assert book.due(1e6 + 9) == []
    ((_, again),) = book.due(1e6 + 10)
    assert (again.id, again.tries, again.answer) == (first.id, 1, "503")
    assert book.last([1])[1] == again, "it has waited longest"
    book.note(replace(again, state=DeliveryState.GIVEN_UP))
    assert waiting(book, 1e6 + 10) == ["p/k"]
    assert book.counts() == {(1, DeliveryState.PENDING): 1, (1, DeliveryState.GIVEN_UP): 1}


def test_too_many_are_counted_and_not_kept(book: AlertBook) -> None:
    book.add(a_rule())
    deliver(book, *(f"p/j{n}" for n in range(a.MOST_PENDING + 3)))
    assert book.counts() == {(1, DeliveryState.PENDING): a.MOST_PENDING} and book.left_out() == {1: 3}


def test_what_became_of_old_ones_is_forgotten_and_nothing_that_waits(book: AlertBook, clock: ManualClock) -> None:
    book.add(a_rule())
    deliver(book, "p/j", "p/k")
    ((_, first),) = book.due(1e6)
    book.note(replace(first, state=DeliveryState.DELIVERED))
    book.tidy()
    assert len(book.counts()) == 2
    clock.advance(a.KEPT_SECONDS + 1)
    book.tidy()
    assert book.counts() == {(1, DeliveryState.PENDING): 1} and waiting(book) == ["p/k"]
    left: Delivery = book.last([1])[1]
    assert left.alert.subject == "p/k" and book.last([2]) == {}
