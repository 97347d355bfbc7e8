"""Lists of jobs with a filter: what the store can leave out, it does; the rest is judged by what the answer shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from stoker.core.errors import BadSpec, Violation
from stoker.core.states import JobState, ShownState
from stoker.store.base import Listed, Store, Which

from .filters import (
    EVERYTHING,
    And,
    Comparison,
    Filter,
    Not,
    Or,
    compare,
    compare_text,
    comparisons,
    possible_values,
    predicate,
    read_filter,
    read_time,
)
from .proto_json import snake
from .translation import value_at

LARGEST_PAGE = 100
MOST_LOOKED_AT = 2000
"""Jobs, for one page. A filter that few of them pass gets a short page, or an empty one, and a token to go on with."""

_AT_ONCE = 200
_JOB_STATES: Mapping[ShownState, frozenset[JobState]] = {
    ShownState.QUEUED: frozenset({JobState.QUEUED}),
    ShownState.PREPARING: frozenset({JobState.QUEUED, JobState.ACTIVE}),
    ShownState.RUNNING: frozenset({JobState.ACTIVE}),
    ShownState.CANCELLING: frozenset({JobState.QUEUED, JobState.ACTIVE}),
    ShownState.SUCCEEDED: frozenset({JobState.SUCCEEDED}),
    ShownState.FAILED: frozenset({JobState.FAILED}),
    ShownState.CANCELLED: frozenset({JobState.CANCELLED}),
}

Shown: TypeAlias = Mapping[str, Any]
Show: TypeAlias = Callable[[Listed], dict[str, Any] | None]
"""None: it is not of this list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filterable:
    """The fields of a dialect's job by which lists can be filtered."""

    texts: frozenset[str]
    times: frozenset[str]
    states: Mapping[str, ShownState | None]  # as the dialect writes them; None: one that no job here is ever in
    name: str = ""  # the field that is the job's name here, if any


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was asked for."""

    size: int
    before: int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter, understood."""

    filter: Filter
    fields: Filterable
    passes: Callable[[Shown], bool]  # whether a job that is shown like this passes

    def which(self, dialect: str = "") -> Which:
        """What the store need not look at."""
        names = possible_values(self.filter, "state", ops=("=", ":"))
        shown = [self.fields.states.get(name) for name in names] if names is not None else []
        states = frozenset[JobState]().union(*(_JOB_STATES[s] for s in shown if s is not None))
        prefix = _prefix(self.filter, self.fields.name) if self.fields.name else ""
        return Which(dialect=dialect, states=states if names is not None else None, prefix=prefix)


def read_page(size: str, token: str) -> Page:
    """The page that pageSize and pageToken ask for. Raises BadSpec."""
    if not re.fullmatch("[0-9]{1,9}", size):
        raise BadSpec([Violation("page_size", f"{size[:20]!r} is not a number")])
    if token and not re.fullmatch("[0-9]{1,18}", token):
        raise BadSpec([Violation("page_token", "not a token that this server gave")])
    return Page(min(int(size) or 20, LARGEST_PAGE), int(token) if token else None)


def read_wanted(text: str, fields: Filterable) -> Wanted:
    """The filter that was asked for. Raises BadSpec for what cannot be understood, and for fields and states there are not."""
    filter = _renamed(read_filter(text), _canonical(fields))
    for comparison in comparisons(filter):
        _check(comparison, fields)
    return Wanted(filter, fields, predicate(filter, lambda comparison: _test_of(comparison, fields)))


def page_of(store: Store, project: str, page: Page, wanted: Wanted, which: Which, show: Show) -> tuple[list[Any], str]:
    """The jobs of a page as they are shown, and the token of the next one ("": there is none)."""
    shown: list[Any] = []
    last, looked_at = page.before, 0
    while True:
        is_first = looked_at == 0  # most filters are the store's affair, and then one look suffices
        most = _AT_ONCE if wanted.filter != EVERYTHING and not is_first else page.size + 1 - len(shown)
        found = store.jobs(project, before=last, limit=most, which=which)
        for listed in found:
            if len(shown) == page.size:
                return shown, str(last)
            answer, last, looked_at = show(listed), listed.n, looked_at + 1
            if answer is not None and wanted.passes(answer):
                shown.append(answer)
        if len(found) < most:
            return shown, ""
        if looked_at >= MOST_LOOKED_AT:
            return shown, str(last)


def _check(comparison: Comparison, fields: Filterable) -> None:
    first, op, value = comparison.path[0], comparison.op, comparison.value
    if comparison.field in fields.times:
        read_time(comparison)
    elif comparison.field == "state":
        if "*" not in value and value not in fields.states:
            known = ", ".join(fields.states)
            raise BadSpec([Violation("filter", f"state: {value[:80]!r} is not a state; there are {known}")])
    elif first == "labels":
        if len(comparison.path) > 2 or (len(comparison.path) == 1 and op != ":"):
            raise BadSpec([Violation("filter", "labels are compared as labels.KEY=VALUE, or labels:KEY")])
    elif comparison.field not in fields.texts:
        known = ", ".join(sorted({*fields.texts, *fields.times, "state", "labels.KEY"}))
        raise BadSpec([Violation("filter", f"no field {comparison.field[:80]!r} to filter by; there are {known}")])


def _test_of(comparison: Comparison, fields: Filterable) -> Callable[[Shown], bool]:
    """What a comparison asks of a job that is shown."""
    path, op, is_true = comparison.path, comparison.op, _compared(comparison, fields)
    if path == ("labels",):
        return lambda shown: any(map(is_true, shown.get("labels", {})))

    def test(shown: Shown) -> bool:
        have = shown.get("labels", {}).get(path[1]) if path[0] == "labels" else value_at(shown, comparison.field)
        return op == "!=" if have is None else is_true(str(have))

    return test


def _compared(comparison: Comparison, fields: Filterable) -> Callable[[str], bool]:
    """What a comparison asks of one value. The time or text that it is compared with is read once."""
    path, op, want = comparison.path, comparison.op, comparison.value
    if comparison.field in fields.times:
        time = read_time(comparison)
        return lambda have: compare(read_time(Comparison(path, op, have)), op, time)
    return lambda have: compare_text(have, op, want)


def _prefix(filter: Filter, field: str) -> str:
    """What the name of everything that passes begins with; empty if that cannot be told."""
    match filter:
        case Comparison(op=("=" | ":")) if filter.field == field:
            return filter.value.partition("*")[0] if filter.op == ":" else filter.value
        case And():
            return max((_prefix(part, field) for part in filter.parts), key=len, default="")
        case _:
            return ""


def _canonical(fields: Filterable) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Fields may be spelled in snake_case."""
    known = {snake(name): name for name in _names(fields)}

    def rename(path: tuple[str, ...]) -> tuple[str, ...]:
        if path[0] == "labels":
            return path
        name = ".".join(path)
        return tuple(known.get(".".join(map(snake, path)), name).split("."))

    return rename


def _names(fields: Filterable) -> Iterator[str]:
    yield from (*fields.texts, *fields.times, "state")


def _renamed(filter: Filter, rename: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Filter:
    match filter:
        case Comparison():
            return Comparison(rename(filter.path), filter.op, filter.value)
        case And():
            return And(tuple(_renamed(part, rename) for part in filter.parts))
        case Or():
            return Or(tuple(_renamed(part, rename) for part in filter.parts))
        case Not():
            return Not(_renamed(filter.part, rename))
