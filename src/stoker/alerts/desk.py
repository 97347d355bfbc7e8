"""What users may do about alerts: add rules, see them and what became of their deliveries, try them, remove them."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stoker.clock import Clock
from stoker.core.alerts import Alert, Delivery, DeliveryState, Rule
from stoker.core.errors import BadSpec, NotFound, TooMany, Violation
from stoker.core.ids import PROJECT_NAME
from stoker.registry import names
from stoker.store.alerts import AlertBook

from .channel import Channel, Message, NotDelivered, one_line
from .events import check_events
from .reach import Reach
from .signing import new_secret

RULE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LONGEST_PATTERN = 128
TESTS_PER_MINUTE = 5
"""Of one user: a test sends to whoever the rule names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A rule as somebody asks for it."""

    name: str
    channel: str
    target: str
    events: Sequence[str] = ()
    project: str = ""
    jobs: str = ""
    everyone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """A rule, and what became of what it told."""

    rule: Rule
    shown_target: str
    counts: dict[DeliveryState, int]
    left_out: int  # alerts that were not kept, since too many waited
    last: Delivery | None  # the delivery that has waited longest, or the newest; None: there was none in the last week


@dataclass(slots=True, kw_only=True)
class Desk:
    """Safe to call from any thread."""

    book: AlertBook
    channels: Callable[[str], Channel]  # by name. Raises NotFound
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tests: dict[str, list[float]] = field(default_factory=dict)  # when they were sent, by user

    def add(self, reach: Reach, asked: Asked) -> Rule:
        """Keep a rule; it holds for what happens from now on. Raises BadSpec with all that is wrong, or AlreadyExists."""
        violations: list[Violation] = []
        if not RULE_NAME.fullmatch(asked.name):
            problem = "a small letter, then small letters, digits, '-' and '_'; 63 at most"
            violations.append(Violation("name", f"{one_line(asked.name, 80)!r} cannot be a rule's name: {problem}"))
        violations += _problems(reach, asked)
        events: tuple[str, ...] = ()
        try:
            events = check_events(asked.events, is_admin=reach.is_admin)
        except BadSpec as error:
            violations += error.violations
        is_signed = False
        try:
            channel = self.channels(asked.channel)
            is_signed = channel.is_signed
            channel.check(asked.target)
        except NotFound:
            there = ", ".join(names("channels"))
            violations.append(Violation("channel", f"{one_line(asked.channel, 80)!r} is no channel; there are {there}"))
        except BadSpec as error:
            violations += error.violations
        if violations:
            raise BadSpec(violations)
        return self.book.add(
            Rule(
                owner=reach.user,
                name=asked.name,
                channel=asked.channel,
                target=asked.target,
                events=events,
                project=asked.project,
                jobs=asked.jobs,
                everyone=asked.everyone,
                secret=new_secret() if is_signed else "",
            )
        )

    def rules(self, owner: str | None) -> list[RuleState]:
        """The rules of one user or of all (None), each with what became of what it told."""
        found = self.book.rules(owner)
        counts, left_out, last = self.book.counts(), self.book.left_out(), self.book.last([rule.n for rule in found])
        return [
            RuleState(
                rule=rule,
                shown_target=self._shown(rule),
                counts={state: counts.get((rule.n, state), 0) for state in DeliveryState},
                left_out=left_out.get(rule.n, 0),
                last=last.get(rule.n),
            )
            for rule in found
        ]

    def remove(self, owner: str, name: str) -> None:
        """Drop a rule, and what is on its way. Raises NotFound."""
        self.book.remove(owner, name)

    def test(self, user: str, owner: str, name: str) -> tuple[bool, str]:
        """Send a message of a rule now: whether it was taken, and what was answered. Raises NotFound or TooMany."""
        rule = self.book.rule(owner, name)
        now = self.clock.now()
        self._count_test(user, now)
        alert = Alert(
            event="test",
            subject=rule.name,
            at=now,
            title="This is a test",
            text=f"{user} has tried the rule {rule.name}: what it tells of will come here.",
            owner=rule.owner,
        )
        message = Message(id=secrets.token_hex(16), alert=alert, rule=rule.name, is_test=True)
        try:
            return True, self.channels(rule.channel).send(rule.target, message, rule.secret, now)
        except NotDelivered as error:
            return False, str(error)
        except NotFound as error:  # its package is not installed any more
            return False, error.message

    def _shown(self, rule: Rule) -> str:
        try:
            return self.channels(rule.channel).shown(rule.target)
        except NotFound:
            return "?"

    def _count_test(self, user: str, now: float) -> None:
        with self._lock:
            lately = [at for at in self._tests.get(user, ()) if now - at < 60.0]
            if len(lately) >= TESTS_PER_MINUTE:
                wait = 60.0 - (now - lately[0])
                raise TooMany(
                    f"{TESTS_PER_MINUTE} tests a minute are sent at most", fix="wait a moment", retry_after_seconds=wait
                )
            self._tests = {name: times for name, times in self._tests.items() if times and now - times[-1] < 60.0}
            self._tests[user] = [*lately, now]


def _problems(reach: Reach, asked: Asked) -> list[Violation]:
    """What is wrong with the filters."""
    violations = []
    if asked.project and not PROJECT_NAME.fullmatch(asked.project):
        violations.append(Violation("project", f"{one_line(asked.project, 80)!r} cannot be a project's id"))
    elif asked.project and not reach.sees(asked.project):
        problem = f"no project {asked.project!r} for this token; it opens {', '.join(sorted(reach.projects))}"
        violations.append(Violation("project", problem))
    if len(asked.jobs) > LONGEST_PATTERN or not re.fullmatch(r"[A-Za-z0-9_*?!\[\]-]*", asked.jobs):
        problem = "a pattern of letters, digits, '_', and *, ?, [abc] as in a shell; 128 characters at most"
        violations.append(Violation("jobs", f"{one_line(asked.jobs, 80)!r} fits no job's name: {problem}"))
    return violations
