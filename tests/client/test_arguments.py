"""What a program hands over: what it means, and what cannot be meant."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy
import pytest

from stoker.client import arguments as a
from stoker.core.errors import BadSpec

HALF = "\ud800"  # half of a character: no UTF-8 has it


class Unshowable:
    """What raises when it is shown."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("read", "value", "meant"),
    [
        (a.a_text, "ü 𝄞", "ü 𝄞"),
        (a.a_switch, True, True),
        (a.a_count, 0, 0),
        (a.a_count, numpy.int64(3), 3),
        (a.a_number, -1, -1.0),
        (a.a_number, math.inf, math.inf),
        (a.an_amount, 0, 0.0),
        (a.above_zero, numpy.float32(0.5), 0.5),
        (a.a_path, "x/y", Path("x/y")),
        (a.a_path, Path("x"), Path("x")),
        (a.words, ("--x", 3, 0.5, Path("y")), ["--x", "3", "0.5", "y"]),
        (a.words, numpy.array([1, 2]), ["1", "2"]),
        (a.words, (n for n in range(2)), ["0", "1"]),
        (a.words, [], []),
        (a.a_table, {"A": "1"}, {"A": "1"}),
    ],
)
def test_what_is_meant(read: a.Reader[Any], value: object, meant: object) -> None:
    found = a.argument("x", value, read)
    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("read", "value"),
    [
        *[(a.a_text, value) for value in (5, None, b"x", HALF, "a\0b", Unshowable())],
        *[(a.a_switch, value) for value in ("no", 1, None)],
        *[(a.a_count, value) for value in (-1, 1.5, True, "1", None, 10**5000, numpy.array([1, 2]))],
        *[(a.a_number, value) for value in ("1", math.nan, True, Decimal(1), 10**5000)],
        *[(a.an_amount, value) for value in (-1, math.inf, math.nan)],
        *[(a.above_zero, value) for value in (0, -1, math.inf, "x")],
        *[(a.a_path, value) for value in (5, b"x", HALF, "a\0b")],
        *[(a.words, value) for value in ("--x 3", b"x", bytearray(b"x"), {"x": 1}, {"x"}, 5, numpy.array(1))],
        *[(a.words, [value]) for value in (b"x", HALF, "a\0b", 10**5000)],
        *[(a.a_table, value) for value in (["a"], "a", {1: "a"}, {"a": 1}, {"a": HALF}, {HALF: "a"})],
        *[(a.as_json, value) for value in (object(), HALF, math.nan, {(1, 2): 3}, Unshowable())],
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),  # some cannot be shown
)
def test_what_cannot_be_meant_is_told_with_what_to_give(read: a.Reader[Any], value: object) -> None:
    with pytest.raises(BadSpec) as refused:
        a.argument("field", value, read)
    (violation,) = refused.value.violations
    assert violation.field == "field" and violation.description and refused.value.fix
    assert len(violation.description) < 200 and "\n" not in violation.description
    violation.description.encode()  # it can be printed


def test_one_text_is_not_taken_apart_into_its_letters() -> None:
    with pytest.raises(BadSpec) as refused:
        a.argument("args", "--epochs 3", a.words)
    assert refused.value.fix == "give a list: ['--epochs', '3']"


def test_all_that_is_wrong_is_told_at_once() -> None:
    readers = {"cpus": a.above_zero, "gpus": a.a_count, "name": a.a_text}
    assert a.arguments({"name": "x", "gpus": 0}, readers) == {"name": "x", "gpus": 0}
    with pytest.raises(BadSpec) as refused:
        a.arguments({"cpus": 0, "gpus": "x", "name": "x"}, readers)
    assert [violation.field for violation in refused.value.violations] == ["cpus", "gpus"]
    assert "leave it out; give a number such as 0 or 4" in refused.value.fix


def test_numbers_of_numpy_are_numbers_in_json_too() -> None:
    assert json.loads(a.as_json({"n": numpy.int64(2), "x": [numpy.float32(0.5)]})) == {"n": 2, "x": [0.5]}
