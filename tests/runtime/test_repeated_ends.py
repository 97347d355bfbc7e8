"""How a program has ended, start after start."""

from __future__ import annotations

import time

import pytest

from stoker.runtime.repeated_ends import End, Ends, place_of


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (End(137, "", 3.0, "step 7"), End(137, "", 3.4, "step 7"), True),
        (End(137, "", 3.0, "step 7"), End(137, "", 3.4, "step 8"), False),  # it went on from its checkpoint
        (End(137, "", 3.0, "step 7"), End(139, "", 3.0, "step 7"), False),
        (End(137, "", 3.0, "step 7"), End(137, "SEGFAULT", 3.0, "step 7"), False),
        (End(137, "", 0.0, ""), End(137, "", 0.9, ""), True),
        (End(11, "", 1.0, "x"), End(11, "", 1.0, "x"), True),
        (End(143, "", 1.0, "saved"), End(143, "", 1.0, "saved"), False),  # it asks to be run again
        (End(200, "", 1.0, "saved"), End(200, "", 1.0, "saved"), False),
        (End(137, "", 40.0, ""), End(137, "", 90.0, ""), False),  # somebody else killed it, now and then
        (End(137, "", 9.0, "12:00:01 step 7 loss 0.25"), End(137, "", 9.0, "12:00:41,003 step 7 loss 0.24"), False),
        (End(137, "", 9.0, "12:00:01 step 7 loss 0.25"), End(137, "", 9.0, "12:00:41.003 step 7 loss 0.25"), True),
        (End(137, "", 3600.0, "on cuda"), End(137, "", 3300.0, "on cuda"), True),
        (End(137, "", 3600.0, "on cuda"), End(137, "", 2700.0, "on cuda"), False),  # somebody else killed it
        (End(137, "", 60.0, ""), End(137, "", 60.0, ""), False),
    ],
)
def test_ends_that_are_alike(one: End, other: End, alike: bool) -> None:
    assert one.is_like(other) == other.is_like(one) == alike


def test_those_in_a_row_are_counted() -> None:
    ends, counts = Ends(), []
    for place in ("a", "a", "b", "b", "b"):
        ends.add(End(137, "", 1.0, place))
        counts.append(ends.alike)
    assert counts == [1, 2, 1, 2, 3]
    assert ends.pattern() == "it ended in this way 3 times in a row, after the line 'b'"


def test_a_place_is_cut_to_size() -> None:
    assert place_of("  at 0x7f33 in step 3 ") == "at # in step 3" and len(place_of("x" * 10**6)) == 160


def test_a_line_of_digits_costs_nothing() -> None:
    begun = time.process_time()
    place_of("1" * 64_000)
    assert time.process_time() - begun < 0.1
