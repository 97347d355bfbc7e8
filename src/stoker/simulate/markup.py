"""Elements of HTML and SVG as text. Whatever stands in one is escaped, so that a trace cannot write into a report."""

from __future__ import annotations

import re
from html import escape

NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff￾￿]")
"""What may stand in no document, whatever is done to it."""


class Markup(str):
    """Text that is an element already."""

    __slots__ = ()


def safe(text: object) -> Markup:
    """Somebody's text, as it may stand in a document. An element stays as it is."""
    return text if isinstance(text, Markup) else Markup(escape(NO_TEXT.sub("�", str(text)), quote=True))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. Of attributes, `kind` stands for class, and `_` for the hyphen."""
    told = "".join(
        f' {"class" if key == "kind" else key.strip("_").replace("_", "-")}="{safe(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{joined(*inside)}</{name}>" if inside else f"<{name}{told}/>")


def joined(*parts: object) -> Markup:
    """One after the other."""
    return Markup("".join(map(safe, parts)))


def table(headers: tuple[object, ...], rows: list[list[object]]) -> Markup:
    """A table: the first column says what stands in a row, numbers to the right."""
    head = tag("tr", *(tag("th", cell, scope="col") for cell in headers))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), kind="scroll")
