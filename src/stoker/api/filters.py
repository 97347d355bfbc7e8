"""The filter language of list methods: `jobId:rnn* AND (state=FAILED OR labels.team="ml")`. Pure; each dialect judges.

As Google's API guidance defines it (aip.dev/160), and Cloud Logging's queries alike: NOT binds tightest, then OR, then AND;
two conditions side by side are both meant; `-x` is NOT x; a value may be quoted. What a field is, and what `:` means for it,
each dialect says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar

from stoker.core.errors import BadSpec, Violation

T = TypeVar("T")
LONGEST_FILTER = 20_000
_DEEPEST = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<op><=|>=|!=|[=<>:])|(?P<paren>[()])|(?P<minus>-(?=[A-Za-z_("]))"""
    r"""|(?P<word>[^\s"=<>!:()\\,]+))""",
    re.VERBOSE | re.DOTALL,
)
_VALUE = re.compile(r'[^\s"()\\,=<>!:][^\s"()\\,]*')  # unquoted: a time has colons in it


@dataclass(frozen=True, slots=True)
class Comparison:
    """`path op value`; op is one of `= != < > <= >= :`. `labels.team` is the path ("labels", "team")."""

    path: tuple[str, ...]
    op: str
    value: str

    @property
    def field(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them, or more."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not so."""

    part: Filter


Filter: TypeAlias = Comparison | And | Or | Not

EVERYTHING = And(())
"""What an empty filter means."""

NOTHING = Or(())
"""What nobody passes."""


def read_filter(text: str) -> Filter:
    """The filter that a text says. Raises BadSpec with the place at which it cannot be understood."""
    if len(text) > LONGEST_FILTER:
        raise BadSpec([Violation("filter", f"a filter may have {LONGEST_FILTER} characters")])
    return _Reader(text).whole() if text.strip() else EVERYTHING


def predicate(filter: Filter, test_of: Callable[[Comparison], Callable[[T], bool]]) -> Callable[[T], bool]:
    """What says of a thing whether it passes. `test_of` is asked once for each comparison, however many things are judged."""
    match filter:
        case Comparison():
            return test_of(filter)
        case And():
            tests = [predicate(part, test_of) for part in filter.parts]
            return lambda thing: all(test(thing) for test in tests)
        case Or():
            tests = [predicate(part, test_of) for part in filter.parts]
            return lambda thing: any(test(thing) for test in tests)
        case Not():
            test = predicate(filter.part, test_of)
            return lambda thing: not test(thing)


def comparisons(filter: Filter) -> Iterator[Comparison]:
    """Every comparison of a filter, to be checked before anything is judged."""
    match filter:
        case Comparison():
            yield filter
        case And() | Or():
            for part in filter.parts:
                yield from comparisons(part)
        case Not():
            yield from comparisons(filter.part)


def possible_values(filter: Filter, field: str, ops: tuple[str, ...] = ("=",)) -> frozenset[str] | None:
    """The values that a field can have in what passes; None: any. So a store need not look at everything.

    `ops`: those that mean equality for this field, but for a value with a `*`.
    """
    match filter:
        case Comparison() if filter.field == field and filter.op in ops and "*" not in filter.value:
            return frozenset({filter.value})
        case And():
            known = [v for part in filter.parts if (v := possible_values(part, field, ops)) is not None]
            return frozenset.intersection(*known) if known else None
        case Or() if filter.parts:
            each = [possible_values(part, field, ops) for part in filter.parts]
            return frozenset().union(*(v for v in each if v is not None)) if None not in each else None
        case _:
            return None


def possible_range(filter: Filter, field: str, read: Callable[[Comparison], int]) -> tuple[int | None, int | None]:
    """The lowest and the highest whole number that a field can have in what passes; None: without a bound.

    `read` says the number that the field is compared with.
    """
    match filter:
        case Comparison() if filter.field == field:
            value = read(filter)
            low = {"=": value, ":": value, ">=": value, ">": value + 1}.get(filter.op)
            return low, {"=": value, ":": value, "<=": value, "<": value - 1}.get(filter.op)
        case And():
            lows, highs = _ranges(filter.parts, field, read)
            known_lows, known_highs = [n for n in lows if n is not None], [n for n in highs if n is not None]
            return max(known_lows, default=None), min(known_highs, default=None)
        case Or() if filter.parts:
            lows, highs = _ranges(filter.parts, field, read)
            low = None if None in lows else min(n for n in lows if n is not None)
            return low, None if None in highs else max(n for n in highs if n is not None)
        case _:
            return None, None


def _ranges(
    parts: tuple[Filter, ...], field: str, read: Callable[[Comparison], int]
) -> tuple[list[int | None], list[int | None]]:
    ranges = [possible_range(part, field, read) for part in parts]
    return [low for low, _ in ranges], [high for _, high in ranges]


def simplify(filter: Filter, known: Callable[[Comparison], bool | None]) -> Filter:
    """The filter without what is known of it already; EVERYTHING or NOTHING if that decides it."""
    match filter:
        case Comparison():
            answer = known(filter)
            return filter if answer is None else EVERYTHING if answer else NOTHING
        case And():
            parts = [part for p in filter.parts if (part := simplify(p, known)) != EVERYTHING]
            return NOTHING if NOTHING in parts else parts[0] if len(parts) == 1 else And(tuple(parts))
        case Or():
            parts = [part for p in filter.parts if (part := simplify(p, known)) != NOTHING]
            return EVERYTHING if EVERYTHING in parts else parts[0] if len(parts) == 1 else Or(tuple(parts))
        case Not():
            part = simplify(filter.part, known)
            return NOTHING if part == EVERYTHING else EVERYTHING if part == NOTHING else Not(part)


def compare_text(have: str, op: str, want: str) -> bool:
    """A text compared; after `:` a `*` stands for any characters."""
    return _fits(have, want) if op == ":" and "*" in want else compare(have, op, want)


def _fits(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern. From left to right, so that no pattern takes long: a regular expression may."""
    first, *middle, last = pattern.split("*")
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def compare(have: str | float, op: str, want: str | float) -> bool:
    """Two values of one type compared; `:` is equality here."""
    match op:
        case "=" | ":":
            return have == want
        case "!=":
            return have != want
        case "<":
            return have < want  # type: ignore[operator]
        case ">":
            return have > want  # type: ignore[operator]
        case "<=":
            return have <= want  # type: ignore[operator]
        case _:
            return have >= want  # type: ignore[operator]


def read_time(comparison: Comparison) -> float:
    """The RFC 3339 time that something is compared with, in seconds since the epoch. Raises BadSpec."""
    try:
        time = datetime.fromisoformat(comparison.value)
        if time.tzinfo is None:
            raise ValueError
        return time.timestamp()
    except (ValueError, OverflowError):
        problem = f"{comparison.field}: {comparison.value[:80]!r} is not a time like 2026-01-31T12:00:00Z"
        raise BadSpec([Violation("filter", problem)]) from None


class _Reader:
    """Reads a filter, left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Filter:
        """All of the text."""
        found = self._all_of(0)
        if self._peek("paren", "op", "word", "quoted", "minus") or self._rest():
            raise self._bad(f"{self._rest()[:40]!r} was not expected")
        return found

    def _all_of(self, depth: int) -> Filter:
        parts = [self._any_of(depth)]
        while self._rest() and not self._rest().startswith(")"):
            self._take_word("AND")
            parts.append(self._any_of(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _any_of(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._take_word("OR"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _one(self, depth: int) -> Filter:
        if depth > _DEEPEST:
            raise self._bad("it is nested too deeply")
        if self._take_word("NOT") or self._take("minus"):
            return Not(self._one(depth + 1))
        if self._take("paren", "("):
            inside = self._all_of(depth + 1)
            if not self._take("paren", ")"):
                raise self._bad("a closing parenthesis is missing")
            return inside
        return self._comparison()

    def _comparison(self) -> Comparison:
        path = self._path()
        op = self._take("op")
        if not op:
            wanted = f"after {'.'.join(path)[:80]!r} one of = != < > <= >= : is needed"
            raise self._bad(wanted)
        return Comparison(path, op, self._value())

    def _path(self) -> tuple[str, ...]:
        """`labels.team`, or `labels."a.b/c"`."""
        words: list[str] = []
        while True:
            quoted, word = self._take("quoted"), ""
            if quoted:
                words.append(_unquoted(quoted))
            else:
                word = self._take("word")
                words += [part for part in word.split(".") if part]
            if not (word.endswith(".") or (quoted and self._text[self._at : self._at + 1] == ".")):
                break
        if not words or not all(words) or words[-1] in ("AND", "OR", "NOT"):
            raise self._bad("the name of a field is needed")
        return tuple(words)

    def _value(self) -> str:
        quoted = self._take("quoted")
        if quoted:
            return _unquoted(quoted)
        self._skip_spaces()
        match = _VALUE.match(self._text, self._at)
        if match is None:
            raise self._bad("a value is needed; put it in double quotes if it has spaces")
        self._at = match.end()
        return match[0]

    def _take_word(self, word: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["word"] != word:
            return False
        self._at = match.end()
        return True

    def _take(self, kind: str, text: str = "") -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[kind] is None or (text and match[kind] != text):
            return ""
        self._at = match.end()
        return match[kind]

    def _peek(self, *kinds: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        return match is not None and any(match[kind] is not None for kind in kinds)

    def _rest(self) -> str:
        self._skip_spaces()
        return self._text[self._at :]

    def _skip_spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _bad(self, problem: str) -> BadSpec:
        wanted = f"{problem}, at character {self._at + 1} of {self._text[:200]!r}; like state=FAILED AND labels.team=ml"
        return BadSpec([Violation("filter", wanted)])


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
