"""What a program hands to the SDK, read once, at the edge. What cannot be meant is refused by its name.

A reader takes any value and returns what it means, or raises `Unfit`. numpy's numbers are numbers.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Set
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from stoker.core.errors import BadSpec, Violation

Value = TypeVar("Value")
Reader = Callable[[Any], Value]

_MOST = 1 << 63  # what any field of the API holds
_LONGEST_SHOWN = 80
_NO_CHARACTERS = "leave out NUL and half characters (\\ud800)"
_NO_LIST = "give a list of texts and numbers, such as ['--epochs', 3]"


class Unfit(Exception):
    """A value that cannot be meant: what is wrong with it, and what to give instead."""

    def __init__(self, problem: str, hint: str) -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def argument(name: str, value: object, read: Reader[Value]) -> Value:
    """What one argument means. Raises BadSpec."""
    try:
        return read(value)
    except Unfit as unfit:
        raise BadSpec([Violation(name, unfit.problem)], fix=unfit.hint) from None


def arguments(given: Mapping[str, object], readers: Mapping[str, Reader[Any]]) -> dict[str, Any]:
    """What all of them mean. Raises BadSpec with everything that is wrong."""
    found: dict[str, Any] = {}
    refused: list[BadSpec] = []
    for name, value in given.items():
        try:
            found[name] = argument(name, value, readers[name])
        except BadSpec as error:
            refused.append(error)
    if refused:
        hints = dict.fromkeys(error.fix for error in refused)
        raise BadSpec([v for error in refused for v in error.violations], fix="; ".join(hints))
    return found


def a_text(value: Any) -> str:
    """A text that can be sent, and handed to a program."""
    if not isinstance(value, str):
        raise Unfit(f"{shown(value)} is not text", "give a text, in quotes")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Unfit(f"{shown(value)} holds a character that cannot be sent", _NO_CHARACTERS)
    return value


def a_switch(value: Any) -> bool:
    """True or False, and nothing that only looks like it: 'no' is true."""
    if not isinstance(value, bool):
        raise Unfit(f"{shown(value)} is neither True nor False", "give True or False")
    return value


def a_count(value: Any) -> int:
    """A whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < _MOST:
        raise Unfit(f"{shown(value)} is not a whole number of 0 or more", "give a number such as 0 or 4")
    return int(value)


def a_number(value: Any) -> float:
    """Any number that is one: not NaN."""
    try:
        found = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        found = math.nan
    if math.isnan(found):
        raise Unfit(f"{shown(value)} is not a number", "give a number such as 0.5 or 4")
    return found


def an_amount(value: Any) -> float:
    """A finite number, 0 or more."""
    found = a_number(value)
    if not 0 <= found < math.inf:
        raise Unfit(f"{shown(value)} is not a number of 0 or more", "give a number of 0 or more")
    return found


def above_zero(value: Any) -> float:
    """A finite number above 0."""
    found = a_number(value)
    if not 0 < found < math.inf:
        raise Unfit(f"{shown(value)} is not a number above 0", "give a number above 0, or leave it out")
    return found


def a_path(value: Any) -> Path:
    """A path of this machine, as a text or as a Path."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise Unfit(f"{shown(value)} is not a path", "give a text or a pathlib.Path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        path = "\0"
    if "\0" in path:
        raise Unfit(f"{shown(value)} cannot be the path of a file", _NO_CHARACTERS)
    return Path(path)


def words(value: Any) -> list[str]:
    """A list of words, each a text or what has one: numbers and paths. One text would be taken apart into its letters."""
    if isinstance(value, str):
        raise Unfit(f"{shown(value)} is one text, not a list", f"give a list: {shown(value.split())}")
    if isinstance(value, bytes | bytearray | Mapping | Set):
        raise Unfit(f"{shown(value)} is not a list", _NO_LIST)
    try:
        found = list(value)
    except TypeError:
        raise Unfit(f"{shown(value)} is not a list", _NO_LIST) from None
    return [_word(one) for one in found]


def a_table(value: Any) -> dict[str, str]:
    """Texts by name."""
    if not isinstance(value, Mapping):
        raise Unfit(f"{shown(value)} is no dict", 'give a dict of texts, such as {"team": "vision"}')
    for one in (*value.keys(), *value.values()):
        if not isinstance(one, str):
            raise Unfit(f"{shown(one)} in it is not text", "write it as a text, in quotes")
        a_text(one)
    return dict(value)


def as_json(value: Any) -> bytes:
    """The JSON of what can be said in it."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain_number).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"cannot be sent as JSON: {error}", "use dicts, lists, texts and numbers alone") from None


def shown(value: object) -> str:
    """A value in a message: on one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of whatever kind: what cannot be shown has a type all the same
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _word(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        raise Unfit(f"{shown(value)} in it is not text", "decode it: value.decode()")
    try:
        return a_text(str(value))
    except ValueError:  # a number of more digits than Python writes
        raise Unfit(f"{shown(value)} in it cannot be written as a text", "give it as a text") from None


def _plain_number(value: Any) -> int | float:
    """A number of numpy's as one of Python's own."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{shown(value)} is a {type(value).__name__}")
