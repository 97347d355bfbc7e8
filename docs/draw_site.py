"""Draws the end of docs/site.md: the policies and placers that there are. What is before it is written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from docs.markdown import table
from stoker.registry import MEMBERS, load

HEAD = Path(__file__).with_name("site.md")
MARK = "<!-- what follows is drawn by `docs/draw_site.py` from the code; do not edit it, but run `make docs` -->"


def site() -> str:
    """docs/site.md: its head as it is, and the rest from the registry."""
    parts = [
        HEAD.read_text(encoding="utf-8").partition(MARK)[0].strip(),
        MARK,
        "## Policies",
        "Whoever was submitted earlier goes first, where a policy finds two alike.",
        table(["Policy", "The order", "Options"], list(_rows("policies"))),
        "## Placers",
        table(["Placer", "Where a gang goes"], [row[:2] for row in _rows("placers")]),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(group: str) -> Iterator[list[str]]:
    for name in sorted(MEMBERS[group]):
        member = load(group, name)
        parameters = inspect.signature(member).parameters.values()
        options = (f"`{p.name}` ({p.default:g})" for p in parameters if isinstance(p.default, int | float))
        yield [f"`{name}`", (inspect.getdoc(member) or "").partition("\n")[0], ", ".join(options)]
