"""Values to JSON and back, for the database. The types say how; nothing is written by hand."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter

from stoker.core.changes import Change

Value = TypeVar("Value")

_KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Change)}


_adapters: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    """The adapter of a type, made at its first use: making one takes milliseconds, using it microseconds."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def encode(value: object) -> str:
    """A frozen value as JSON."""
    return _adapter(type(value)).dump_json(value, exclude_defaults=True).decode()


def decode(kind: type[Value], text: str) -> Value:
    """The value that was encoded."""
    value: Value = _adapter(kind).validate_json(text)
    return value


def decode_change(kind: str, text: str) -> Change:
    """The change that was encoded, by the name of its class."""
    change: Change = _adapter(_KINDS[kind]).validate_json(text)
    return change
