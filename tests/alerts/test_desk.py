"""What users do about alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.alerts.desk import TESTS_PER_MINUTE, Asked, Desk
from stoker.alerts.reach import Reach
from stoker.clock import ManualClock
from stoker.core.alerts import Cursor
from stoker.core.errors import AlreadyExists, BadSpec, NotFound, TooMany
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore

from .builders import FakeChannel, an_alert

ADA = Reach(user="ada", projects=frozenset({"p"}))
ASKED = Asked(name="on-call", channel="fake", target="there")


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
def desk(tmp_path: Path, clock: ManualClock, channel: FakeChannel) -> Iterator[Desk]:
    store = SqlStore(tmp_path / "s.db", clock)

    def channels(name: str) -> FakeChannel:
        if name != "fake":
            raise NotFound(f"no channel {name}")
        return channel

    yield Desk(book=AlertBook(store.database, clock), channels=channels, clock=clock)
    store.close()


def test_a_rule_is_added_with_a_secret_where_it_signs(desk: Desk, channel: FakeChannel) -> None:
    assert desk.add(ADA, ASKED).secret == ""
    channel.is_signed = True
    rule = desk.add(ADA, replace(ASKED, name="other", events=["job-ended"], project="p", jobs="train_*", everyone=True))
    assert rule.secret.startswith("whsec_") and rule.secret not in repr(rule)
    assert (rule.owner, rule.events, rule.project, rule.jobs, rule.everyone) == (
        "ada",
        ("job-ended",),
        "p",
        "train_*",
        True,
    )
    assert [state.rule.name for state in desk.rules("ada")] == ["on-call", "other"] and desk.rules("bob") == []
    with pytest.raises(AlreadyExists):
        desk.add(ADA, ASKED)


def test_all_that_is_wrong_is_told_at_once(desk: Desk) -> None:
    asked = Asked(name="On Call", channel="pigeon", target="", events=["nothing", "disk-low"], project="q", jobs="a/b")
    with pytest.raises(BadSpec) as found:
        desk.add(ADA, asked)
    assert [violation.field for violation in found.value.violations] == [
        "name",
        "project",
        "jobs",
        "events",
        "events",
        "channel",
    ]
    said = str(found.value)
    assert "it opens p" in said and "there are email, slack, webhook" in said
    with pytest.raises(BadSpec, match="cannot be a project's id"):
        desk.add(ADA, replace(ASKED, project="a b"))


@pytest.mark.parametrize("name", ["", "A", "1", "a b", "a/b", "a" * 64, "ä", "a\n"])
def test_odd_names_are_refused(desk: Desk, name: str) -> None:
    with pytest.raises(BadSpec, match="cannot be a rule's name"):
        desk.add(ADA, replace(ASKED, name=name))


def test_a_test_is_sent_at_once_and_says_what_came_back(desk: Desk, channel: FakeChannel, clock: ManualClock) -> None:
    desk.add(ADA, ASKED)
    channel.failures = 1
    assert desk.test("ada", "ada", "on-call") == (False, "503 away")
    assert desk.test("root", "ada", "on-call") == (True, "200 OK")
    (message,) = channel.sent
    assert message.is_test and "root has tried the rule on-call" in message.alert.text
    for _ in range(TESTS_PER_MINUTE - 1):
        desk.test("ada", "ada", "on-call")
    with pytest.raises(TooMany, match="5 tests a minute"):
        desk.test("ada", "ada", "on-call")
    clock.advance(61)
    assert desk.test("ada", "ada", "on-call")[0]
    with pytest.raises(NotFound):
        desk.test("bob", "bob", "on-call")


def test_a_rule_whose_channel_is_gone_is_still_shown(desk: Desk) -> None:
    rule = desk.add(ADA, ASKED)
    desk.book.remove("ada", "on-call")
    desk.book.add(replace(rule, channel="pigeon"))
    assert [state.shown_target for state in desk.rules("ada")] == ["?"]
    assert desk.test("ada", "ada", "on-call") == (False, "no channel pigeon")


def test_rules_are_shown_with_what_waits_and_removed(desk: Desk) -> None:
    rule = desk.add(ADA, ASKED)
    desk.book.move(desk.book.cursor(), Cursor(position=1), [(rule, an_alert())])
    (state,) = desk.rules(None)
    assert sum(state.counts.values()) == 1 and state.last is not None and state.last.alert.subject == "p/j"
    desk.remove("ada", "on-call")
    assert desk.rules(None) == []
