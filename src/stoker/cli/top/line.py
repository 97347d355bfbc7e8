"""Lines of a screen, before they are coloured: pieces of text with the names of their styles, and tables that fit a width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click
from rich.cells import cell_len, set_cell_size

from stoker.cli import show

Span = tuple[str, str]
"""A text, and the name of a style of STYLES; an empty name is plain."""

STYLES = {
    "head": "bold",
    "dim": "bright_black",
    "good": "green",
    "busy": "cyan",
    "warn": "yellow",
    "bad": "red",
    "job": "magenta",
}
"""The styles: a colour of the terminal's own sixteen, or bold. They fit dark terminals and light ones."""

GAP = 2
"""Columns between two cells of a table."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and what it is about: ("job", project, name), ("node", name), ("gpu", uuid); empty: nothing to choose."""

    spans: tuple[Span, ...] = ()
    about: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Without styles."""
        return "".join(text for text, _ in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    name: str
    least: int  # narrower it is of no use
    most: int  # wider it need not be
    is_right: bool = False
    drop: int = 0  # where there is no room, the greatest goes first; 0: never
    grows: bool = False  # takes what is left over


def plain(text: str) -> str:
    """What somebody else wrote, without escape sequences, ends of lines, and characters that cannot be seen."""
    text = click.unstyle(show.safe(text)).replace("\t", " ").replace("\x1b", "�")
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def fitted(text: str, width: int, *, is_right: bool = False) -> str:
    """The text in so many columns exactly; what is too long ends in an ellipsis."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    blank = " " * (width - length)
    return blank + text if is_right else text + blank


def widths(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int) -> list[int]:
    """How wide each column is, so that all fit; 0 for one that is left out. `rows`: the texts, with an empty one where none is.

    A column in which nothing stands is left out. One that grows takes what is left over, up to its most.
    """
    needs = [0] * len(columns)
    for row in rows:
        needs = [max(need, cell_len(text)) for need, text in zip(needs, row, strict=True)]
    shown = [n for n, need in enumerate(needs) if need]
    least = [
        column.least if column.grows else min(column.least, max(need, len(column.name)))
        for column, need in zip(columns, needs, strict=True)
    ]
    while len(shown) > 1 and sum(least[n] + GAP for n in shown) - GAP > width:
        last = max(shown, key=lambda n: (columns[n].drop, n))
        if not columns[last].drop:
            break
        shown.remove(last)
    found = {n: least[n] for n in shown}
    left = width - sum(found.values()) - GAP * (len(shown) - 1)
    if left < 0:  # narrower than even the least: the ends are cut off
        found = dict(zip(shown, _cut([found[n] for n in shown], width), strict=True))
        return [found.get(n, 0) for n in range(len(columns))]
    for n in shown:
        more = min(left, max(0, min(columns[n].most, max(needs[n], len(columns[n].name))) - found[n]))
        if not columns[n].grows:
            found[n] += more
            left -= more
    growing = [n for n in shown if columns[n].grows]
    for place, n in enumerate(growing):
        more = min(left // (len(growing) - place), columns[n].most - found[n])
        found[n] += more
        left -= more
    return [found.get(n, 0) for n in range(len(columns))]


def row_of(columns: Sequence[Column], sizes: Sequence[int], cells: Sequence[Span]) -> tuple[Span, ...]:
    """A row of a table."""
    spans: list[Span] = []
    for column, size, (text, style) in zip(columns, sizes, cells, strict=True):
        if size:
            if spans:
                spans.append((" " * GAP, ""))
            spans.append((fitted(text, size, is_right=column.is_right), style))
    return tuple(spans)


def heading(columns: Sequence[Column], sizes: Sequence[int]) -> tuple[Span, ...]:
    """The names of the columns."""
    return row_of(columns, sizes, [(column.name, "dim") for column in columns])


def _cut(sizes: Sequence[int], width: int) -> list[int]:
    found, left = [], width
    for size in sizes:
        found.append(max(0, min(size, left)))
        left -= size + GAP
    return found
