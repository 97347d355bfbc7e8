"""Reads and writes proto3 JSON by tables of fields, so that a dialect is a table and not code.

Accepted as proto3 does: lowerCamelCase and snake_case names, numbers as text, enums by name or number, booleans as text
(contract, section 0). The result is canonical: lowerCamelCase, int64 as text, enums by name. What is wrong is reported all at
once, each with the snake_case path of its field.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stoker.core.errors import Violation

MOST_VIOLATIONS = 100
"""So many are reported; a body that is wrong all over is not worth more of our time."""

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?s")


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    """`masterConfig` → `master_config`."""
    return _CAMEL.sub(lambda m: "_" + m[1].lower(), name)


def snake_keys(value: Any) -> Any:
    """A message with its names in snake_case, as programs are told it."""
    if isinstance(value, dict):
        return {snake(key): snake_keys(part) for key, part in value.items()}
    return [snake_keys(part) for part in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a field: reads one value into its canonical form, or raises ValueError with what is needed."""

    name: str

    def read(self, value: Any) -> Any:
        """The canonical form."""
        match self.name:
            case "string":
                return _text(value)
            case "int64":
                return str(_whole(value))
            case "int32":
                return _whole(value, bits=32)
            case "double":
                return _number(value)
            case "bool":
                if isinstance(value, bool):
                    return value
                if isinstance(value, str) and value.lower() in ("true", "false"):
                    return value.lower() == "true"
                raise ValueError(f"true or false is needed, not {_shown(value)}")
            case "duration":
                if isinstance(value, str) and _SECONDS.fullmatch(value):
                    return value
                raise ValueError(f"seconds with the suffix 's' are needed, like 7200s or 3.5s, not {_shown(value)}")
            case _:
                raise AssertionError(self.name)


STRING, INT64, INT32, DOUBLE, BOOL, DURATION = map(Kind, ("string", "int64", "int32", "double", "bool", "duration"))


@dataclass(frozen=True, slots=True)
class Enum:
    """A field with names; `numbers`: name → its number on the wire."""

    numbers: Mapping[str, int]

    def read(self, value: Any) -> str:
        """The name."""
        if isinstance(value, str) and value in self.numbers:
            return value
        for name, number in self.numbers.items():
            if value == number and not isinstance(value, bool):
                return name
        near = difflib.get_close_matches(str(value)[:80].upper().replace("-", "_"), self.numbers, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{_shown(value)} is not known; {hint}there are {', '.join(self.numbers)}")


@dataclass(frozen=True, slots=True)
class OpenEnum:
    """A field with names, of which there are more than the table has: a name is taken as it is, and looked up elsewhere."""

    numbers: Mapping[str, int]

    def read(self, value: Any) -> str:
        """The name."""
        return _text(value) if isinstance(value, str) else Enum(self.numbers).read(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A repeated field."""

    item: Kind | Enum | OpenEnum | Message


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from texts to values of one kind."""

    item: Kind


@dataclass(frozen=True, slots=True)
class Any_:
    """A part that is kept as it is, to be looked at elsewhere."""


@dataclass(frozen=True, slots=True)
class OutputOnly:
    """A field of answers. In a request it is ignored, not refused (contract, section 0)."""

    kind: Enum | None = None


@dataclass(frozen=True)
class Message:
    """A message: its fields by their lowerCamelCase names."""

    name: str
    fields: Mapping[str, Field]
    _by_spelling: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in self.fields:
            self._by_spelling[name] = name
            self._by_spelling[snake(name)] = name

    def read(self, value: Any, path: str, violations: list[Violation]) -> dict[str, Any]:
        """The canonical form of what can be read; the rest is added to the violations."""
        own_path = path or snake(self.name[0].lower() + self.name[1:])
        if not isinstance(value, dict):
            violations.append(Violation(own_path, f"a table of fields is needed, not {_shown(value)}"))
            return {}
        found: dict[str, Any] = {}
        for key, part in value.items():
            if len(violations) >= MOST_VIOLATIONS:
                break
            name = self._by_spelling.get(key) if isinstance(key, str) else None
            if name is None:
                violations.append(Violation(own_path, self._unknown(key)))
            elif name in found:
                violations.append(Violation(f"{path}.{snake(name)}" if path else snake(name), "is given twice"))
            elif part is not None and not isinstance(self.fields[name], OutputOnly):
                read = _read(self.fields[name], part, f"{path}.{snake(name)}" if path else snake(name), violations)
                if read is not None:
                    found[name] = read
        return found

    def _unknown(self, key: Any) -> str:
        name, known = str(key)[:80], [n for n, kind in self.fields.items() if not isinstance(kind, OutputOnly)]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"{self.name} has no field {name!r}; {hint}"


def with_numbers(kind: Field, value: Any) -> Any:
    """An answer with its enums by number, as clients ask for with `$alt=json;enum-encoding=int`."""
    match kind:
        case Message():
            return {name: with_numbers(kind.fields[name], part) for name, part in value.items()}
        case ListOf():
            return [with_numbers(kind.item, part) for part in value]
        case OutputOnly(kind=Enum() as shown):
            return with_numbers(shown, value)
        case Enum() | OpenEnum():
            return kind.numbers.get(value, value)
        case _:
            return value


Field = Kind | Enum | OpenEnum | ListOf | MapOf | Any_ | OutputOnly | Message


def _read(kind: Field, value: Any, path: str, violations: list[Violation]) -> Any:
    if len(violations) >= MOST_VIOLATIONS:
        return None
    try:
        match kind:
            case Message():
                return kind.read(value, path, violations)
            case ListOf():
                if not isinstance(value, list):
                    raise ValueError(f"a list is needed, not {_shown(value)}")
                items = [_read(kind.item, part, f"{path}[{n}]", violations) for n, part in enumerate(value)]
                return [item for item in items if item is not None]
            case MapOf():
                if not isinstance(value, dict):
                    raise ValueError(f"a table is needed, not {_shown(value)}")
                parts = {key: _read(kind.item, v, f"{path}.{str(key)[:80]}", violations) for key, v in value.items()}
                return {str(key): part for key, part in parts.items() if part is not None}
            case Any_():
                return value
            case Kind() | Enum() | OpenEnum():
                return kind.read(value)
            case OutputOnly():
                return None
    except ValueError as error:
        violations.append(Violation(path, str(error)))
        return None


def _text(value: Any) -> str:
    """A text; a number counts as its digits, for YAML reads 2.11 as a number. Refused is what no program can be handed."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"a text is needed, not {_shown(value)}; put it in quotes")
    if _NO_TEXT.search(value):
        raise ValueError("a text cannot hold NUL or half a character")
    return value


def _whole(value: Any, bits: int = 64) -> int:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return value
    raise ValueError(f"a whole number is needed, not {_shown(value)}")


def _number(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    raise ValueError(f"a number is needed, not {_shown(value)}")


def _shown(value: Any) -> str:
    """The value as JSON has it, cut short."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
