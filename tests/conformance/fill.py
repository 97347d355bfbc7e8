"""Fills in what a case leaves open: `${P}`, `${REPEAT:x:128}`, `${LIST:${PKG}:101}`, and the names that its setup saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

BUILT_IN = frozenset({"P", "R", "PKG", "MISSING_PKG", "MODEL_DIR"})
"""The names that the runner knows without being told."""

_NAME = re.compile(r"\$\{(\w+)\}")
_REPEAT = re.compile(r"\$\{REPEAT:([^{}]*):(\d+)\}", re.DOTALL)
_LIST = re.compile(r"\$\{LIST:(.*):(\d+)\}", re.DOTALL)


def fill(value: Any, values: Mapping[str, Any]) -> Any:
    """The value with everything filled in. Raises KeyError for a name that nobody gave."""
    match value:
        case str():
            return _fill_text(value, values)
        case dict():
            return {fill(key, values): fill(part, values) for key, part in value.items()}
        case list():
            return [fill(part, values) for part in value]
        case _:
            return value


def names_in(value: Any) -> Iterator[str]:
    """The names that a value asks for."""
    match value:
        case str():
            yield from _NAME.findall(value)
        case dict():
            yield from names_in(list(value.keys()))
            yield from names_in(list(value.values()))
        case list():
            for part in value:
                yield from names_in(part)


def _fill_text(text: str, values: Mapping[str, Any]) -> Any:
    """A text; a list in place of `${LIST…}`, and a saved value that is not text in place of a `${NAME}` that stands alone."""
    if alone := _NAME.fullmatch(text):
        return values[alone[1]]
    if many := _LIST.fullmatch(text):
        return [_fill_text(many[1], values)] * int(many[2])
    named = _NAME.sub(lambda name: str(values[name[1]]), text)
    return _REPEAT.sub(lambda repeat: repeat[1] * int(repeat[2]), named)
