"""Whatever crashes, and whenever: every event that fits a rule reaches its receiver, and each message keeps its id.

A machine submits, fails and forgets jobs, adds rules, lets a server take rounds that break off at any of the places where they
write or send, and starts another one. At the end the receiver is well again, and what it has is compared with what happened.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stoker.alerts.making import Making
from stoker.alerts.sending import Sending
from stoker.clock import ManualClock
from stoker.core.alerts import Alert, Cursor, Delivery, DeliveryState, Rule
from stoker.core.changes import Forget, MoveJob, Submit
from stoker.core.states import JobState
from stoker.store.alerts import AlertBook
from stoker.store.sql import SqlStore
from tests.alerts.builders import FakeChannel, a_cordon, a_rule, reach_of
from tests.builders import a_job


class Crash(BaseException):
    """The server is killed here."""


class Crashing(AlertBook):
    """A book that is killed at a place, before or after it is written."""

    at = ""

    def _crash(self, place: str) -> None:
        if self.at == place:
            self.at = ""
            raise Crash

    def move(self, before: Cursor, after: Cursor, made: Iterable[tuple[Rule, Alert]]) -> bool:
        """Move the cursor."""
        self._crash("before move")
        is_moved = super().move(before, after, made)
        self._crash("after move")
        return is_moved

    def note(self, tried: Delivery) -> None:
        """What came of a try."""
        self._crash("before note")
        super().note(tried)
        self._crash("after note")


PLACES = ["", "before move", "after move", "before note", "after note"]


class Alerts(RuleBasedStateMachine):
    """A server with alerts, one thread of it at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.store = SqlStore(Path(self.folder.name) / "s.db", self.clock)
        self.channel = FakeChannel()
        self.rules = 0
        self.jobs: list[str] = []
        self.nodes = 0
        self.expected: set[tuple[str, str]] = set()  # rule and subject
        self.of_jobs: list[str] = []
        self.of_site: list[str] = []
        self.start()

    def start(self) -> None:
        """A server begins with what is written."""
        self.book = Crashing(self.store.database, self.clock)
        self.making = Making(
            store=self.store, book=self.book, reach=reach_of(), look=lambda wanted, marks: [], clock=self.clock
        )
        self.sending = Sending(
            book=self.book, channels=lambda name: self.channel, reach=reach_of(), clock=self.clock, chance=lambda: 0.5
        )

    @precondition(lambda self: self.rules < 4)
    @rule(is_of_site=st.booleans())
    def add(self, is_of_site: bool) -> None:
        """A rule counts for what happens from now on."""
        name = f"r{self.rules}"
        self.rules += 1
        made = a_rule(name, "root", "node-cordoned") if is_of_site else a_rule(name, "ada", "job-failed", "job-ended")
        self.book.add(made)
        (self.of_site if is_of_site else self.of_jobs).append(name)

    @rule(
        after=st.sampled_from([JobState.FAILED, JobState.CANCELLED]), is_forgotten=st.booleans(), is_mine=st.booleans()
    )
    def end(self, after: JobState, is_forgotten: bool, is_mine: bool) -> None:
        """A job comes and ends, and may be forgotten at once."""
        name = f"j{len(self.jobs)}"
        self.jobs.append(name)
        end = MoveJob(job=f"p/{name}", before=JobState.QUEUED, after=after, at=1.0)
        forget = [Forget(job=f"p/{name}")] if is_forgotten else []
        self.store.commit([Submit(job=a_job(name, owner="ada" if is_mine else "bob")), end, *forget], by="loop")
        if is_mine:
            self.expected |= {(told, f"p/{name}") for told in self.of_jobs}

    @rule()
    def cordon(self) -> None:
        """A node is cordoned."""
        self.nodes += 1
        self.store.commit([a_cordon(f"n{self.nodes}")], by="root")
        self.expected |= {(told, f"n{self.nodes}") for told in self.of_site}

    @rule(place=st.sampled_from(PLACES), failures=st.integers(0, 2))
    def go_on(self, place: str, failures: int) -> None:
        """A round, which may be broken off; then another server begins."""
        self.book.at, self.channel.failures = place, failures
        try:
            self.making.go_on()
            self.send()
        except Crash:
            self.start()

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.clock.advance(seconds)

    def send(self) -> None:
        """What is due, one after the other, in this thread."""
        for told, delivery in self.book.due(self.clock.now()):
            self.book.note(self.sending.try_once(told, delivery))

    @invariant()
    def nothing_is_told_that_is_not_meant(self) -> None:
        """Nobody hears of what is not his, or of what was before."""
        assert {(message.rule, message.alert.subject) for message in self.channel.sent} <= self.expected

    def teardown(self) -> None:
        """All is well again: now everything arrives."""
        try:
            self.channel.failures = 0
            self.start()
            for _ in range(len(self.expected) + 2):
                self.making.go_on()
                self.send()
                self.clock.advance(3601.0)
            sent = [(message.rule, message.alert.subject, message.id) for message in self.channel.sent]
            assert {(told, subject) for told, subject, _ in sent} == self.expected
            assert len({id for _, _, id in sent}) == len(self.expected), "a repeat has the id of the first"
            assert all(state is DeliveryState.DELIVERED for _, state in self.book.counts())
        finally:
            self.store.close()
            self.folder.cleanup()


TestAlerts = Alerts.TestCase
TestAlerts.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
