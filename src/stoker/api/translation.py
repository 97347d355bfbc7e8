"""From a foreign message to a JobSpec by a table of rows: (field, rule, target). A dialect is its tables; this reads them.

`docs/fields.md` is drawn from the same tables, so that they can be checked against the contract line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from stoker.core.errors import Violation
from stoker.core.runtimes import Surroundings
from stoker.core.spec import JobSpec, Limits, Program

from .proto_json import snake

Whole = Mapping[str, Any]
"""A message in canonical form, as proto_json reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """What the site adds to the rules."""

    runtimes: Surroundings = field(default_factory=Surroundings)
    strict_runtimes: bool = False
    grace_seconds: float = 30.0
    hang_seconds: float = 3600.0


Rule = Callable[[Any, Whole, SiteRules], Iterable[str | Violation]]
"""What must hold of a value, given the whole message; None: the field is not there. A text is a problem of the field itself.

The first line of its docstring is the rule as the documentation tells it.
"""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Row:
    """One field of a message: its rule, and where in the JobSpec it goes ("": it is kept with the job, and has no effect)."""

    field: str  # dotted, lowerCamelCase
    rule: Rule
    target: str  # dotted; "groups…" is assembled by the dialect from its shapes
    convert: Callable[[Any], Any] = _same

    @property
    def path(self) -> str:
        """The field as errors name it."""
        return ".".join(map(snake, self.field.split(".")))


def anything(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Any value of its type."""
    return ()


def value_at(whole: Whole, field: str) -> Any:
    """The value of a dotted field; None if it, or something above it, is not there."""
    value: Any = whole
    for name in _split(field):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


@cache
def _split(field: str) -> tuple[str, ...]:
    """Kept: each row asks for every message."""
    return tuple(field.split("."))


def violations_of(
    rows: Sequence[Row], whole: Whole, site: SiteRules, *, unread: Sequence[Violation] = (), prefix: str = ""
) -> list[Violation]:
    """Everything that is wrong with a message. `prefix`: the path of the message itself.

    `unread`: the fields that could not be read. They are missing from the message, which is not told a second time.
    """
    found: list[Violation] = []
    for row in rows:
        for problem in row.rule(value_at(whole, row.field), whole, site):
            violation = Violation(row.path, problem) if isinstance(problem, str) else problem
            found.append(Violation(prefix + violation.field, violation.description))
    return [v for v in found if not any(u.field == v.field or u.field.startswith(f"{v.field}.") for u in unread)]


def targets_of(rows: Sequence[Row], whole: Whole) -> dict[str, Any]:
    """Target → value, of the fields that are given."""
    given = ((row, value_at(whole, row.field)) for row in rows if row.target)
    return {row.target: row.convert(value) for row, value in given if value is not None}


def spec_of(targets: Mapping[str, Any], **more: Any) -> JobSpec:
    """The JobSpec with these targets. Those of groups are the dialect's."""
    parts: dict[str, dict[str, Any]] = {"program": {}, "limits": {}, "": {}}
    for target, value in targets.items():
        part, _, name = target.rpartition(".")
        if part in parts:
            parts[part][name] = value
    return JobSpec(program=Program(**parts["program"]), limits=Limits(**parts["limits"]), **parts[""], **more)


def seconds(duration: str) -> float:
    """`3.5s` → 3.5."""
    return float(duration.removesuffix("s"))
