"""Markdown, as the drawn pages need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(title: str, *parts: str) -> str:
    """A whole page."""
    source = "drawn by `docs/draw.py` from the code; do not edit it, but run `make docs`"
    return "\n\n".join([f"# {title}", f"<!-- {source} -->", *(part.strip("\n") for part in parts)]) + "\n"
