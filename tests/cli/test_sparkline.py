"""Series as lines of bars."""

from __future__ import annotations

import io
import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.cli.sparkline import sparkline


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


@pytest.mark.parametrize(
    ("numbers", "width", "from_zero", "line"),
    [
        ([], 10, False, ""),
        ([1.0, 2.0, 3.0], 10, False, "▁▅█"),
        ([5.0, 5.0], 10, False, "▅▅"),
        ([90.0, 100.0], 10, True, "██"),
        ([1.0, None, 3.0], 10, False, "▁ █"),
        ([1.0, math.nan, 3.0, math.inf], 10, False, "▁×█×"),
        ([0.0, 0.0, 8.0, 8.0], 2, False, "▁█"),
    ],
)
def test_lines(numbers: list[float | None], width: int, from_zero: bool, line: str) -> None:
    assert sparkline(numbers, width, from_zero=from_zero) == line


def test_a_full_bar_is_as_much_as_is_said() -> None:
    assert sparkline([0.0, 25.0, 50.0, 100.0, 130.0], 10, from_zero=True, most=100.0) == "▁▃▅██"
    assert sparkline([0.0, 0.0], 10, from_zero=True, most=100.0) == "▁▁"


def test_where_there_are_no_such_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert sparkline([1.0, 2.0, math.nan], 10) == "_@x"


@example([-8.4e206, 3.7e-101], 2, True)
@given(st.lists(st.none() | st.floats()), st.integers(1, 40), st.booleans())
def test_it_fits(numbers: list[float | None], width: int, from_zero: bool) -> None:
    assert len(sparkline(numbers, width, from_zero=from_zero)) == min(len(numbers), width)
