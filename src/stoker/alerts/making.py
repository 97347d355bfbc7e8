"""Makes deliveries: from the lines of the story after the cursor, and from what has begun to hold on the site."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from stoker.clock import Clock
from stoker.core.alerts import Alert, Cursor, Rule
from stoker.core.changes import Submit
from stoker.store.alerts import AlertBook
from stoker.store.base import Store

from .conditions import Condition, begun
from .events import alerts_of
from .reach import Reach, ReachOf, is_told

LINES = 1000
"""Of the story, at a time."""

MOST_MADE = 200
"""Deliveries of one transaction, but for those of the line that reaches it."""

LOOK_SECONDS = 30.0
"""From one look at the site to the next."""

KEEP_SECONDS = 60.0
"""A cursor that has found nothing is written so seldom: what is read again after a crash makes nothing either."""

Look = Callable[[Collection[str], Collection[str]], list[Condition]]


class Making:
    """Of one thread. It has no state but what may be lost: where it is in the story is read from the database."""

    def __init__(self, *, store: Store, book: AlertBook, reach: ReachOf, look: Look, clock: Clock) -> None:
        """`look`: what holds on the site now, of some events and given the marks of before."""
        self._store = store
        self._book = book
        self._reach = reach
        self._look = look
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Begin again with what is written, such as when this server takes the lead."""
        self._written: Cursor | None = None  # as in the database
        self._position = 0
        self._written_at = self._clock.now()
        self._looked_at = float("-inf")

    def go_on(self) -> bool:
        """Take the next lines. Returns whether there are likely more."""
        if not self._book.has_rules():
            self._written = None
            return False
        if self._written is None:
            self._written = self._book.cursor()
            self._position = self._written.position
        lines = list(self._store.story(after=self._position, limit=LINES))
        rules = self._book.rules()  # after the lines: a rule that is newer than a line was made after it
        position = self._position
        made: list[tuple[Rule, Alert]] = []
        reach = _Reaches(self._reach)
        for line in lines:
            if len(made) >= MOST_MADE:
                break  # a long transaction would hold up others who write
            position = line.n
            alerts = list(alerts_of(line, self._owner))
            for rule in rules if alerts else ():
                told = next((alert for alert in alerts if is_told(rule, alert, reach.of(rule.owner))), None)
                if told is not None and line.n > rule.since:
                    made.append((rule, told))
        marks, found = self._conditions(rules, self._written.marks)
        for condition in found:
            made += [(rule, condition.alert) for rule in rules if is_told(rule, condition.alert, reach.of(rule.owner))]
        self._keep(Cursor(position=position, marks=marks), made)
        return bool(lines) and (len(lines) == LINES or position < lines[-1].n)

    def _conditions(self, rules: Sequence[Rule], before: frozenset[str]) -> tuple[frozenset[str], list[Condition]]:
        """The marks of what holds now, and what of it has begun."""
        now = self._clock.now()
        if now - self._looked_at < LOOK_SECONDS:
            return before, []
        found = self._look({event for rule in rules for event in rule.events}, before)
        self._looked_at = now
        return frozenset(condition.key for condition in found), begun(found, before)

    def _keep(self, cursor: Cursor, made: Sequence[tuple[Rule, Alert]]) -> None:
        assert self._written is not None
        now = self._clock.now()
        is_time = now - self._written_at >= KEEP_SECONDS and cursor != self._written
        if made or cursor.marks != self._written.marks or is_time:
            if not self._book.move(self._written, cursor, made):
                self.forget()  # another server has gone on, or the rules were made anew
                return
            self._written, self._written_at = cursor, now
        self._position = cursor.position

    def _owner(self, job: str) -> str:
        """Whose a job is, by the first line of its story: also one that was forgotten meanwhile."""
        first = next(self._store.story(job, limit=1), None)
        return first.change.job.owner if first is not None and isinstance(first.change, Submit) else ""


class _Reaches:
    """How far users see, asked once for each."""

    def __init__(self, ask: ReachOf) -> None:
        self._ask = ask
        self._known: dict[str, Reach | None] = {}

    def of(self, user: str) -> Reach | None:
        if user not in self._known:
            self._known[user] = self._ask(user)
        return self._known[user]
