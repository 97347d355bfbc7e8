"""Alerts in the database: the rules, the cursor in the story, and the deliveries.

Deliveries are written in the transaction that moves the cursor, so that a crash neither loses an alert nor makes it twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.clock import Clock
from stoker.core.alerts import Alert, Cursor, Delivery, DeliveryState, Rule
from stoker.core.errors import AlreadyExists, NotFound

from . import statements as q
from .databases import Database, problem_of
from .rows import decode, encode
from .schema import alert_cursor as cursors
from .schema import alert_deliveries as deliveries
from .schema import alert_rules as rules

REPEAT_SECONDS = 1800.0
"""The same event of the same subject is not told again within so long."""

MOST_RULES = 10_000
MOST_RULES_OF_ONE = 100
MOST_PENDING = 1000
"""Of one rule. Beyond, alerts are counted and not kept."""

MOST_DONE = 100_000
KEPT_SECONDS = 7 * 86400.0
"""How long it is known what became of a delivery."""

_PENDING = DeliveryState.PENDING.value


class AlertBook:
    """Keeps alerts. Safe to call from any thread; every call raises Unavailable if the database is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, rule: Rule) -> Rule:
        """Keep a rule; it counts for all that is written to the story from now on. Raises AlreadyExists."""
        with self._writing() as db:
            owners = db.execute(sa.select(rules.c.owner, rules.c.name)).all()
            if (rule.owner, rule.name) in {(row.owner, row.name) for row in owners}:
                raise AlreadyExists(
                    f"there is a rule {rule.name!r} already", fix=f"remove it first: stoker alerts remove {rule.name}"
                )
            own = sum(row.owner == rule.owner for row in owners)
            if own >= MOST_RULES_OF_ONE or len(owners) >= MOST_RULES:
                most = MOST_RULES_OF_ONE if own >= MOST_RULES_OF_ONE else MOST_RULES
                raise AlreadyExists(f"there are {most} rules already", fix="remove some that nobody needs")
            position: int = db.execute(q.LAST_POSITION).scalar_one()
            if not owners:  # nobody has looked at the story meanwhile
                db.execute(sa.delete(cursors))
                db.execute(sa.insert(cursors).values(n=1, position=position, marks="[]"))
            rule = replace(rule, since=position, created_at=self._clock.now())
            made = db.execute(
                sa.insert(rules).values(owner=rule.owner, name=rule.name, left_out=0, body=encode(rule))
            ).inserted_primary_key
            assert made is not None
            return replace(rule, n=made[0])

    def remove(self, owner: str, name: str) -> None:
        """Drop a rule, and what is on its way. Raises NotFound."""
        with self._writing() as db:
            found = _find(db, owner, name)
            db.execute(sa.delete(deliveries).where(deliveries.c.rule == found.n))
            db.execute(sa.delete(rules).where(rules.c.n == found.n))

    def rule(self, owner: str, name: str) -> Rule:
        """One rule. Raises NotFound."""
        with self._reading() as db:
            return _find(db, owner, name)

    def rules(self, owner: str | None = None) -> list[Rule]:
        """The rules of one owner or of all (None), by owner and name."""
        asked = sa.select(rules.c.n, rules.c.body).order_by(rules.c.owner, rules.c.name)
        with self._reading() as db:
            found = db.execute(asked if owner is None else asked.where(rules.c.owner == owner)).all()
        return [_rule(row.n, row.body) for row in found]

    def has_rules(self) -> bool:
        """Whether there is any."""
        with self._reading() as db:
            return db.execute(sa.select(rules.c.n).limit(1)).first() is not None

    def left_out(self) -> Mapping[int, int]:
        """By rule: how many alerts were not kept, since too many waited. Rules without any are not there."""
        with self._reading() as db:
            found = db.execute(sa.select(rules.c.n, rules.c.left_out).where(rules.c.left_out > 0)).all()
        return {row.n: row.left_out for row in found}

    def cursor(self) -> Cursor:
        """Up to where alerts were made."""
        with self._reading() as db:
            row = db.execute(sa.select(cursors)).first()
            if row is None:
                return Cursor(position=db.execute(q.LAST_POSITION).scalar_one())
        return Cursor(position=row.position, marks=frozenset(json.loads(row.marks)))

    def move(self, before: Cursor, after: Cursor, made: Iterable[tuple[Rule, Alert]]) -> bool:
        """Move the cursor, and keep what was found on the way: a delivery for each, but repeats. All or nothing.

        False, and nothing is written, if the cursor is not where it was: another server has moved it.
        """
        with self._writing() as db:
            at = sa.select(cursors.c.position, cursors.c.marks)
            row = db.execute(at).first()
            if row is None or row.position != before.position or frozenset(json.loads(row.marks)) != before.marks:
                return False
            db.execute(sa.update(cursors).values(position=after.position, marks=json.dumps(sorted(after.marks))))
            there = set(db.execute(sa.select(rules.c.n)).scalars())
            for rule, alert in made:
                if rule.n in there and not _is_repeat(db, rule, alert):
                    self._keep(db, rule, alert)
        return True

    def _keep(self, db: Connection, rule: Rule, alert: Alert) -> None:
        waiting = sa.select(sa.func.count()).where(deliveries.c.rule == rule.n, deliveries.c.state == _PENDING)
        if db.execute(waiting).scalar_one() >= MOST_PENDING:
            db.execute(sa.update(rules).where(rules.c.n == rule.n).values(left_out=rules.c.left_out + 1))
            return
        now = self._clock.now()
        made = Delivery(n=0, id=secrets.token_hex(16), rule=rule.n, alert=alert, created_at=now, next_at=now)
        db.execute(
            sa.insert(deliveries).values(
                rule=rule.n,
                event=alert.event,
                subject=alert.subject,
                at=alert.at,
                state=_PENDING,
                created_at=now,
                next_at=now,
                body=encode(made),
            )
        )

    def due(self, now: float, *, not_of: Iterable[int] = ()) -> list[tuple[Rule, Delivery]]:
        """What is to be tried now: of each rule the oldest. `not_of`: rules that are being served."""
        first = (
            sa.select(sa.func.min(deliveries.c.n))
            .where(deliveries.c.state == _PENDING, deliveries.c.next_at <= now)
            .where(deliveries.c.rule.not_in(list(not_of)))
            .group_by(deliveries.c.rule)
        )
        asked = (
            sa.select(deliveries.c.n, deliveries.c.body, rules.c.n.label("rule"), rules.c.body.label("of"))
            .join(rules, rules.c.n == deliveries.c.rule)
            .where(deliveries.c.n.in_(first))
            .order_by(deliveries.c.n)
        )
        with self._reading() as db:
            return [(_rule(row.rule, row.of), _delivery(row.n, row.body)) for row in db.execute(asked).all()]

    def note(self, tried: Delivery) -> None:
        """What came of a try. While it fails, nothing else of the same rule is tried any sooner."""
        row = sa.update(deliveries).where(deliveries.c.n == tried.n)
        with self._writing() as db:
            db.execute(row.values(state=tried.state.value, next_at=tried.next_at, body=encode(tried)))
            if tried.state is DeliveryState.PENDING:
                others = (deliveries.c.rule == tried.rule, deliveries.c.state == _PENDING)
                later = sa.update(deliveries).where(*others, deliveries.c.next_at < tried.next_at)
                db.execute(later.values(next_at=tried.next_at))

    def counts(self) -> Mapping[tuple[int, DeliveryState], int]:
        """How many deliveries there are, by rule and state."""
        asked = sa.select(deliveries.c.rule, deliveries.c.state, sa.func.count().label("many"))
        with self._reading() as db:
            found = db.execute(asked.group_by(deliveries.c.rule, deliveries.c.state)).all()
        return {(row.rule, DeliveryState(row.state)): row.many for row in found}

    def last(self, of: Sequence[int]) -> Mapping[int, Delivery]:
        """By rule: the delivery that has waited longest; where none waits, the newest. Rules without any are not there."""
        asked = sa.select(deliveries.c.n, deliveries.c.body)
        is_of, waits = deliveries.c.rule.in_(list(of)), deliveries.c.state == _PENDING
        newest = sa.select(sa.func.max(deliveries.c.n)).where(is_of).group_by(deliveries.c.rule)
        oldest = sa.select(sa.func.min(deliveries.c.n)).where(is_of, waits).group_by(deliveries.c.rule)
        found: dict[int, Delivery] = {}
        with self._reading() as db:
            for these in (newest, oldest):
                for row in db.execute(asked.where(deliveries.c.n.in_(these))).all():
                    found_one = _delivery(row.n, row.body)
                    found[found_one.rule] = found_one
        return found

    def tidy(self) -> None:
        """Forget what came of old deliveries."""
        now = self._clock.now()
        with self._writing() as db:
            newest = db.execute(sa.select(sa.func.coalesce(sa.func.max(deliveries.c.n), 0))).scalar_one()
            is_done = deliveries.c.state != _PENDING
            is_old = sa.or_(deliveries.c.created_at < now - KEPT_SECONDS, deliveries.c.n <= newest - MOST_DONE)
            db.execute(sa.delete(deliveries).where(is_done, is_old))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._database.engine.connect() as db:
                yield db
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            raise problem_of(self._database, "read", error) from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction of its own, in turn with all others who write; it counts when this ends without an error."""
        try:
            with self._database.engine.connect() as db:
                db.exec_driver_sql(self._database.begin_write)
                yield db
                db.commit()
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            raise problem_of(self._database, "written", error) from error


def _find(db: Connection, owner: str, name: str) -> Rule:
    row = db.execute(sa.select(rules.c.n, rules.c.body).where(rules.c.owner == owner, rules.c.name == name)).first()
    if row is None:
        raise NotFound(f"no rule {name[:80]!r}", fix="stoker alerts list shows them")
    return _rule(row.n, row.body)


def _is_repeat(db: Connection, rule: Rule, alert: Alert) -> bool:
    same = (deliveries.c.rule == rule.n, deliveries.c.event == alert.event, deliveries.c.subject == alert.subject)
    lately = deliveries.c.at > alert.at - REPEAT_SECONDS
    return db.execute(sa.select(deliveries.c.n).where(*same, lately).limit(1)).first() is not None


def _rule(n: int, body: str) -> Rule:
    return replace(decode(Rule, body), n=n)


def _delivery(n: int, body: str) -> Delivery:
    return replace(decode(Delivery, body), n=n)
