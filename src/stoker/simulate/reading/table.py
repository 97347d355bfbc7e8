"""A file of rows and named columns, read so that one call gives every row or every problem."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Generic, NoReturn, TypeVar

from stoker.core.errors import BadSpec, Violation
from stoker.simulate.reading.problems import LeftOut, Problems, Wrong
from stoker.simulate.reading.source import Source

MISSING = frozenset(
    spelling
    for word in ("", "nan", "NaN", "NaT", "none", "null", "NA", "N/A", "unknown")
    for spelling in (word, word.lower(), word.upper(), word.capitalize())
)
MOST_GPUS = 1_000_000  # of one job: more is another unit
LARGEST = 1e15  # of any number: more than the milliseconds of 30,000 years
SHOWN_CHARACTERS = 40

T = TypeVar("T")


@dataclass(slots=True)
class Row:
    """The fields of one line."""

    line: int
    _values: Sequence[str]
    _places: Mapping[str, int]

    def text(self, column: str) -> str:
        """A field as it stands; empty where the file has no such column or says that it does not know."""
        place = self._places.get(column)
        text = "" if place is None else self._values[place].strip()
        return "" if text in MISSING else text

    def name(self, column: str) -> str:
        """A field that must say something."""
        return self.text(column) or _wrong(f"{column} is empty")

    def number(self, column: str, *, least: float | None = None, otherwise: float | None = None) -> float:
        """A finite number, not below `least`; an empty field is `otherwise`, if that is given."""
        text = self.text(column)
        if not text and otherwise is not None:
            return otherwise
        try:
            value = float(text)
        except ValueError:
            shown = self._values[self._places[column]] if column in self._places else ""
            return _wrong(f"{column} is {_shown(shown)}, not a number")
        if not isfinite(value) or "_" in text:
            return _wrong(f"{column} is {_shown(text)}, not a number")
        if abs(value) > LARGEST:
            return _wrong(f"{column} is {_shown(text)}, out of range")
        if least is not None and value < least:
            return _wrong(f"{column} is {_shown(text)}, below {least:g}")
        return value

    def above_zero(self, column: str) -> float:
        """A number above 0."""
        value = self.number(column)
        return value if value > 0 else _wrong(f"{column} is {_shown(self.text(column))}, and must be above 0")

    def count(self, column: str, *, least: int = 0, otherwise: int | None = None) -> int:
        """A whole number, not below `least`."""
        value = self.number(column, least=least, otherwise=otherwise)
        return int(value) if value == int(value) else _wrong(f"{column} is {self.text(column)}, not a whole number")

    def gpus(self, column: str, *, least: int = 0, otherwise: int | None = None) -> int:
        """A number of whole GPUs, as milli-GPU."""
        return milli(self.count(column, least=least, otherwise=otherwise))


def milli(gpus: float) -> int:
    """GPUs, or a share of one, as milli-GPU."""
    if gpus > MOST_GPUS:
        return _wrong(f"{gpus:g} GPUs in one job: more than {MOST_GPUS:,}")
    return round(1000 * gpus)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What the rows of a file came to: values with their lines, and what was left out and why."""

    rows: Sequence[tuple[int, T]]
    dropped: Mapping[str, int]


class Table:
    """Rows under a header. Raises BadSpec where a needed column is missing."""

    def __init__(
        self, source: Source, needed: Sequence[str], *, separator: str = ",", header: Sequence[str] = ()
    ) -> None:
        self._name = source.name
        self._rows = csv.reader(
            io.StringIO(source.text, newline=""),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
        )
        columns = list(header) or self._first()
        self._places = {column: place for place, column in enumerate(columns) if column}
        self._width = len(columns)
        self.need(*needed)
        twice = sorted({column for column in columns if column and columns.count(column) > 1})
        if twice:
            what = f"column {', '.join(twice)} stands there twice"
            raise BadSpec([Violation(f"{self._name}:1", what)], fix="take one of the two out")

    def need(self, *columns: str) -> None:
        """Raise BadSpec where one of these columns is missing, with those that were found."""
        missing = [column for column in columns if column not in self._places]
        if missing:
            what = f"column {', '.join(missing)} is missing; found {', '.join(self._places)[:400]}"
            raise BadSpec([Violation(f"{self._name}:1", what)], fix="add the column, or name another format")

    def has(self, column: str) -> bool:
        """Whether the file has a column."""
        return column in self._places

    def collect(self, parse: Callable[[Row], T]) -> Found[T]:
        """What `parse` makes of each row; it may raise Wrong or LeftOut. Raises BadSpec with everything that is wrong."""
        found: list[tuple[int, T]] = []
        dropped: dict[str, int] = {}
        problems = Problems(self._name)
        for line, values in self._lines(problems):
            try:
                if len(values) != self._width:
                    _wrong(f"{len(values)} fields, where the header has {self._width}")
                found.append((line, parse(Row(line, values, self._places))))
            except LeftOut as left:
                dropped[left.why] = dropped.get(left.why, 0) + 1
            except Wrong as wrong:
                problems.add(line, wrong)
        problems.raise_them()
        return Found(found, dropped)

    def _lines(self, problems: Problems) -> Iterator[tuple[int, list[str]]]:
        while True:
            try:
                values = next(self._rows)
            except StopIteration:
                return
            except csv.Error as error:
                problems.add(self._rows.line_num, Wrong(f"is no CSV: {error}"))
                return
            if any(value.strip() for value in values):
                yield self._rows.line_num, values

    def _first(self) -> list[str]:
        try:
            return [column.strip() for column in next(self._rows)]
        except csv.Error as error:
            raise BadSpec([Violation(f"{self._name}:1", f"is no CSV: {error}")], fix="name a CSV file") from None


def header_of(head: str, separator: str = ",") -> list[str]:
    """The columns that the first line of a file names."""
    first, _, _ = head.lstrip("\ufeff").partition("\n")
    return [column.strip().strip('"') for column in first.split(separator)]


def has_columns(head: str, columns: Sequence[str], separator: str = ",") -> bool:
    """Whether the first line of a file names all of these columns."""
    return set(columns) <= set(header_of(head, separator))


def _wrong(what: str) -> NoReturn:
    raise Wrong(what)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
