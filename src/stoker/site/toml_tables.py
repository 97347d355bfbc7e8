"""Reads the tables of a TOML file key by key, and collects everything that is wrong with it, each with its line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from stoker.core.errors import BadSpec, Violation
from stoker.hardware.faults import closest, either

Value = TypeVar("Value")
Number = TypeVar("Number", int, float)
Path = tuple[str, ...]

LONGEST_SECONDS = 1e9
MOST = 1e9
"""Of anything that is counted. No site has so much of it."""

_LONGEST_SHOWN = 60
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_PARTS = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*{_PARTS}[ \t]*\]")
_KEY = re.compile(rf"[ \t]*{_PARTS}[ \t]*=")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")


class Problems:
    """What is wrong with a file."""

    def __init__(self, name: str, text: str = "") -> None:
        self._name = name
        self._text = text
        self._lines: dict[Path, int] | None = None
        self._found: list[tuple[int, Violation]] = []

    def add(self, path: Path, problem: str) -> None:
        """This is wrong with the value at this path."""
        self._put(self.line(path), ".".join(map(_as_key, path)), problem)

    def add_unreadable(self, error: Exception) -> None:
        """The file is no TOML at all."""
        text = str(error)
        at = _AT_LINE.search(text)
        line = int(at[1]) if at else self._text.rstrip().count("\n") + 1 if "end of document" in text else 0
        self._put(line, "", f"is no TOML: {_AT_LINE.sub('', text)}")

    def line(self, path: Path) -> int:
        """The line of a key, or of what it stands in; 0 for nowhere."""
        if self._lines is None:
            self._lines = _lines_of(self._text)
        return next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), 0)

    @property
    def violations(self) -> list[Violation]:
        """All of them, in the order of the file."""
        return [violation for _, violation in sorted(self._found, key=lambda pair: pair[0])]

    def raise_if_any(self, fix: str) -> None:
        """Raise BadSpec with all of them, if there are any."""
        if self._found:
            raise BadSpec(self.violations, fix=fix)

    def _put(self, line: int, key: str, problem: str) -> None:
        where = f"{self._name}:{line}" if line else self._name
        self._found.append((line, Violation(f"{where} {key}".rstrip(), problem)))


class Table:
    """A table that is read key by key. What nobody has asked for when it ends is unknown."""

    def __init__(self, values: Mapping[str, Any], problems: Problems, path: Path = ()) -> None:
        self._values = values
        self._problems = problems
        self._asked: list[str] = []
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def read(self, key: str, default: Value, reader: Callable[[Any], Value]) -> Value:
        """The value of a key. What cannot be meant is a problem, and counts as the default."""
        self._asked.append(key)
        if key not in self._values:
            return default
        try:
            return reader(self._values[key])
        except ValueError as error:
            self.refuse(key, f"{shown(self._values[key])} {error}")
            return default

    def table(self, key: str) -> Table:
        """A table below this one; an empty one, if it is not there or no table."""
        return Table(self.read(key, {}, a_table), self._problems, (*self.path, key))

    @property
    def is_well(self) -> bool:
        """Whether nothing was found to be wrong so far, here or elsewhere in the file."""
        return not self._problems.violations

    def keys(self) -> Iterable[str]:
        """Its keys, where they are names that nobody knows in advance."""
        return list(self._values)

    def refuse(self, key: str, problem: str) -> None:
        """This is wrong with the value of a key; with the table itself, if there is no key."""
        self._problems.add((*self.path, key) if key else self.path, problem)

    def line(self, key: str) -> int:
        """The line of a key."""
        return self._problems.line((*self.path, key))

    def end(self) -> None:
        """No more keys are known."""
        for key in self._values:
            if key not in self._asked:
                self.refuse(key, unknown("key", key, self._asked))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence for a name that there is not, with the nearest or with all."""
    return f"there is no such {what}; {nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """What was meant instead, or what there is."""
    known = list(known)
    near = closest(name, known)
    return f"did you mean {either(near)}?" if near else f"there are {', '.join(known)}" if known else "there are none"


def a_table(value: Any) -> Mapping[str, Any]:
    """A table."""
    if not isinstance(value, dict):
        raise ValueError("is not a table: give it a heading of its own in brackets, or write { key = value }")
    return value


def a_text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError("is not text: write it in quotes")
    return value


def a_switch(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def a_number(value: Any) -> float:
    """A finite number, 0 or more."""
    try:
        found = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        found = math.inf
    if not 0 <= found <= MOST:
        raise ValueError(f"is not a number from 0 to {MOST:g}")
    return found


def a_count(value: Any) -> int:
    """A whole number, 0 or more."""
    found = a_number(value)
    if found != int(found):
        raise ValueError(f"is not a whole number; the nearest is {round(found)}")
    return int(found)


def at_most(most: float, problem: str, reader: Callable[[Any], Number]) -> Callable[[Any], Number]:
    """A reader of what may not be larger. `problem`: what is said of one that is, before the limit."""

    def read(value: Any) -> Number:
        found = reader(value)
        if found > most:
            raise ValueError(f"{problem} {most:g}")
        return found

    return read


def a_weight(value: Any) -> float:
    """A number above 0."""
    found = a_number(value)
    if found <= 0:
        raise ValueError("is not a weight: it is above 0, such as 1 or 2.5; a quota of 0 keeps a queue from running")
    return found


def a_duration(value: Any) -> float:
    """Seconds, of a number of them or of a text such as `90s`, `15m`, `4h`, `2d`."""
    text = f"{value}s" if isinstance(value, int | float) and not isinstance(value, bool) else value
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)[ ]?([smhd])", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError('is not a duration: give seconds, 0 or more, or "90s", "15m", "4h", "2d"')
    found = float(match[1]) * _UNITS[match[2]]
    if found > LONGEST_SECONDS:
        raise ValueError(f"is longer than the longest, {LONGEST_SECONDS:g} seconds")
    return found


def milli(value: Any) -> int:
    """Thousandths of a number of devices or vCPUs."""
    found = a_number(value) * 1000
    if abs(found - round(found)) > 1e-6 * max(1.0, found):
        raise ValueError(f"has more than three digits after the point; the nearest is {round(found) / 1000:g}")
    return round(found)


def one_of(what: str, known: Iterable[str]) -> Callable[[Any], str]:
    """A reader of one of these names."""
    choices = list(known)

    def read(value: Any) -> str:
        if a_text(value) not in choices:
            raise ValueError(f"is no {what}; {nearest(value, choices)}")
        return str(value)

    return read


def shown(value: object) -> str:
    """A value in a message: on one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a number of more digits than Python writes
        text = "a huge number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _as_key(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else shown(part)


def _lines_of(text: str) -> dict[Path, int]:
    """The line of every key, by a look at each line alone. In a text of several lines it may see keys where there are none."""
    found: dict[Path, int] = {}
    header: Path = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _HEADER.match(line):
            header = _path_of(match[1])
            path = header
        elif match := _KEY.match(line):
            path = (*header, *_path_of(match[1]))
        else:
            continue
        for end in range(1, len(path) + 1):
            found.setdefault(path[:end], number)
    return found


def _path_of(keys: str) -> Path:
    """The parts of a dotted key: `a."b.c"` → a, b.c."""
    try:
        table: Any = tomllib.loads(f"{keys} = 0")
    except (ValueError, RecursionError):
        return ()
    path: list[str] = []
    while isinstance(table, dict):
        ((part, table),) = table.items()
        path.append(part)
    return tuple(path)
