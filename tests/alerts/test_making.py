"""From the story and the site to deliveries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stoker.alerts.conditions import Condition
from stoker.alerts.making import KEEP_SECONDS, LINES, LOOK_SECONDS, MOST_MADE, Making
from stoker.alerts.reach import Reach
from stoker.clock import ManualClock
from stoker.core.alerts import Alert, Rule
from stoker.core.changes import Forget, Submit
from stoker.core.states import JobState
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore
from tests.builders import a_job

from .builders import a_cordon, a_rule, an_end, reach_of


@dataclass
class Site:
    """A store with alerts, and a site that shows what it is told to."""

    store: SqlStore
    book: AlertBook
    clock: ManualClock
    holds: list[str] = field(default_factory=list)  # keys of conditions, which begin with their event
    asked: list[set[str]] = field(default_factory=list)
    users: dict[str, Reach | None] = field(default_factory=dict)

    def making(self) -> Making:
        return Making(store=self.store, book=self.book, reach=reach_of(**self.users), look=self.look, clock=self.clock)

    def look(self, wanted: Collection[str], marks: Collection[str]) -> list[Condition]:
        self.asked.append(set(wanted))
        found = []
        for key in self.holds:
            event, _, subject = key.partition(" ")
            if event in wanted:
                alert = Alert(event=event, subject=subject, at=self.clock.now(), title=key)
                found.append(Condition(key=key, alert=alert))
        return found

    def waiting(self) -> list[tuple[str, str, str]]:
        """All deliveries: rule, event and subject. They are taken."""
        found = []
        while due := self.book.due(1e9):
            for rule, delivery in due:
                found.append((rule.name, delivery.alert.event, delivery.alert.subject))
                self.book.note(replace(delivery, state=type(delivery.state).DELIVERED))
        return sorted(found)


@pytest.fixture
def site(tmp_path: Path, clock: ManualClock) -> Iterator[Site]:
    store = SqlStore(tmp_path / "s.db", clock)
    yield Site(store, AlertBook(store.database, clock), clock)
    store.close()


def add(site: Site, *rules: Rule) -> None:
    for rule in rules:
        site.book.add(rule)


def test_what_happens_is_told_to_whom_it_concerns(site: Site) -> None:
    site.users["bob"] = Reach(user="bob", projects=frozenset({"q"}))
    add(site, a_rule(), a_rule("ends", "ada", "job-failed", "job-ended"), a_rule("all", "bob", everyone=True))
    add(site, a_rule("site", "root", "node-cordoned"), a_rule("not", "ada", "node-cordoned"))
    making = site.making()
    site.store.commit(an_end("j") + an_end("k", after=JobState.CANCELLED) + an_end("l", owner="bob"), by="u")
    site.store.commit([a_cordon()], by="root")
    assert not making.go_on()
    assert site.waiting() == [
        ("ends", "job-ended", "p/k"),
        ("ends", "job-failed", "p/j"),
        ("r", "job-failed", "p/j"),
        ("site", "node-cordoned", "n0"),
    ]
    making.go_on()
    assert site.waiting() == []


def test_what_was_before_a_rule_is_not_told_and_what_was_while_nobody_looked_is(site: Site) -> None:
    site.store.commit(an_end("before"), by="u")
    add(site, a_rule())
    site.store.commit(an_end("between"), by="u")
    add(site, a_rule("later"))
    site.store.commit(an_end("after"), by="u")
    site.making().go_on()
    assert site.waiting() == [
        ("later", "job-failed", "p/after"),
        ("r", "job-failed", "p/after"),
        ("r", "job-failed", "p/between"),
    ]


def test_a_job_that_was_forgotten_has_an_owner_still(site: Site) -> None:
    add(site, a_rule())
    site.store.commit([*an_end("j"), Forget(job="p/j")], by="u")
    site.making().go_on()
    assert site.waiting() == [("r", "job-failed", "p/j")]


def test_a_user_without_a_token_is_told_nothing(site: Site) -> None:
    site.users["ada"] = None
    add(site, a_rule())
    site.store.commit(an_end("j"), by="u")
    site.making().go_on()
    assert site.waiting() == []


def test_a_long_story_is_taken_in_parts(site: Site) -> None:
    add(site, a_rule())
    making = site.making()
    site.store.commit([Submit(job=a_job(f"j{n}")) for n in range(LINES)] + an_end("last"), by="u")
    assert making.go_on() and not making.go_on()
    assert site.waiting() == [("r", "job-failed", "p/last")]


def test_many_alerts_are_written_in_several_transactions(site: Site) -> None:
    add(site, a_rule())
    making = site.making()
    site.store.commit([change for n in range(MOST_MADE + 2) for change in an_end(f"j{n}")], by="u")
    assert making.go_on() and site.book.cursor().position == 2 * MOST_MADE
    assert not making.go_on()
    assert len(site.waiting()) == MOST_MADE + 2


class Racing(AlertBook):
    """A book into which somebody writes a rule, and then an event happens, just when the rules were read."""

    meanwhile: Callable[[], None] | None = None

    def rules(self, owner: str | None = None) -> list[Rule]:
        """The rules, of before that."""
        found = super().rules(owner)
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return found


def test_a_rule_that_is_added_while_a_round_goes_on_misses_nothing(site: Site) -> None:
    add(site, a_rule("other", "bob"))
    book = Racing(site.store.database, site.clock)
    site.book = book

    def happens() -> None:
        add(site, a_rule())
        site.store.commit(an_end("j"), by="u")

    making = site.making()
    site.store.commit(an_end("k"), by="u")
    book.meanwhile = happens
    making.go_on(), making.go_on()
    assert site.waiting() == [("r", "job-failed", "p/j")]


def test_nothing_is_written_for_lines_that_concern_nobody_but_now_and_then(site: Site) -> None:
    add(site, a_rule())
    making = site.making()
    making.go_on()
    site.store.commit([Submit(job=a_job("j"))], by="u")
    making.go_on()
    assert site.book.cursor().position == 0
    site.clock.advance(KEEP_SECONDS)
    making.go_on()
    assert site.book.cursor().position == 1


def test_another_server_that_has_gone_on_is_followed(site: Site) -> None:
    add(site, a_rule())
    one, other = site.making(), site.making()
    one.go_on(), other.go_on()
    site.store.commit(an_end("j"), by="u")
    one.go_on(), other.go_on()
    site.store.commit(an_end("k"), by="u")
    other.go_on(), one.go_on(), one.go_on()
    assert site.waiting() == [("r", "job-failed", "p/j"), ("r", "job-failed", "p/k")]


def test_conditions_are_told_when_they_begin_to_admins(site: Site) -> None:
    add(site, a_rule("root", "root", "disk-low"), a_rule("ada", "ada", "disk-low", "job-failed"))
    making = site.making()
    making.go_on()
    assert site.asked == [{"disk-low", "job-failed"}] and site.waiting() == []
    site.holds = ["disk-low"]
    making.go_on()
    assert len(site.asked) == 1, "not again so soon"
    for expected in ([("root", "disk-low", "")], [], []):
        site.clock.advance(LOOK_SECONDS)
        making.go_on()
        assert site.waiting() == expected
    site.clock.advance(1800.0)
    site.holds = []
    making.go_on()
    site.holds = ["disk-low"]
    site.clock.advance(LOOK_SECONDS)
    making.go_on()
    assert site.waiting() == [("root", "disk-low", "")], "it has begun again"


def test_a_condition_that_goes_on_is_not_told_again_after_a_restart(site: Site) -> None:
    add(site, a_rule("root", "root", "disk-low"))
    site.holds = ["disk-low"]
    site.making().go_on()
    assert len(site.waiting()) == 1
    site.clock.advance(7200.0)
    site.making().go_on()
    assert site.waiting() == []


def test_a_change_of_the_lead_is_known_to_who_knew_the_one_before(site: Site) -> None:
    add(site, a_rule("root", "root", "leader-changed"))
    making = site.making()
    site.holds = ["leader-changed 3"]
    making.go_on()
    assert site.waiting() == []
    site.holds = ["leader-changed 4"]
    site.making().go_on()
    assert site.waiting() == [("root", "leader-changed", "4")]
