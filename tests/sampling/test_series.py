"""Samples as numbers in columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.sampling.series import GREATEST, LEAST, MEAN, P95, Points, Row, Speeds, resampled
from stoker.sampling.series import joined as joined_rows


def joined(samples: list[tuple[float, dict[str, float]]], start: float, seconds: float, count: int) -> Points:
    return joined_rows([Row.of(at, values, {}) for at, values in samples], start, seconds, count)


def test_samples_become_points() -> None:
    samples = [(100.0 + n, {"busy": float(n), **({"late": 5.0} if n >= 10 else {})}) for n in range(20)]
    found = joined(samples, 100.0, 10.0, 3)
    assert found.names == ("busy", "late") and found.count == 3
    assert found.table[0, 0].tolist() == [4.5, 0, 9, 9] and found.table[0, 1].tolist() == [14.5, 10, 19, 19]
    assert np.isnan(found.table[1, 0]).all() and found.table[1, 1, MEAN] == 5
    assert np.isnan(found.table[:, 2]).all(), "nothing fell into the last one"


def test_what_lies_outside_is_left_out() -> None:
    assert np.isnan(joined([(99.0, {"a": 1.0}), (110.0, {"a": 2.0})], 100.0, 1.0, 10).table).all()


def test_points_are_packed_and_come_back() -> None:
    points = joined([(0.0, {"a": 1.5, "b": 80e9}), (10.0, {"a": 2.5})], 0.0, 10.0, 6)
    back = Points.unpacked(points.pack())
    assert (back.start, back.seconds, back.names) == (0.0, 10.0, ("a", "b"))
    assert np.array_equal(back.table, points.table, equal_nan=True)
    assert len(points.pack()) < 300


@pytest.mark.parametrize("data", [b"", b"x", Points(0.0, 1.0, ("a",), np.zeros((1, 2, 4), np.float32)).pack()[:-3]])
def test_a_damaged_block_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"block of samples|buffer|size"):
        Points.unpacked(data)


NUMBERS = st.lists(st.tuples(st.integers(0, 599), st.floats(0, 1000, width=32)), min_size=1, max_size=60)


@given(NUMBERS)
def test_longer_points_say_of_samples_what_these_say(told: list[tuple[int, float]]) -> None:
    """Whatever is joined first, the least and the greatest are theirs, and the percentile is no less than the true one."""
    samples = [(float(at), {"a": value}) for at, value in told]
    fine = [joined(samples, minute * 60.0, 10.0, 6) for minute in range(10)]
    found = resampled(fine, 0.0, 600.0, 1).table[0, 0]
    values = sorted(value for _, value in told)
    assert found[LEAST] == values[0] and found[GREATEST] == values[-1]
    assert values[0] - 1e-3 <= found[MEAN] <= values[-1] + 1e-3
    assert found[P95] >= values[int(np.ceil(0.95 * len(values))) - 1] or found[P95] == values[-1]


def test_blocks_of_other_lengths_and_names_meet() -> None:
    fine = joined([(120.0 + n, {"a": 1.0}) for n in range(60)], 120.0, 10.0, 6)
    coarse = joined([(30.0, {"a": 3.0, "b": 7.0})], 0.0, 60.0, 2)
    found = resampled([coarse, fine], 0.0, 60.0, 3)
    assert found.names == ("a", "b")
    assert found.table[0, :, MEAN].tolist()[::2] == [3.0, 1.0] and np.isnan(found.table[0, 1, MEAN])
    assert resampled([coarse, fine], 0.0, 60.0, 3, ["b"]).names == ("b",)
    assert np.isnan(resampled([], 0.0, 60.0, 3, ["a"]).table).all()


def test_counters_become_speeds() -> None:
    speeds = Speeds(frozenset({"sent"}))
    assert speeds.of(10.0, {"sent": 100.0, "busy": 1.0}) == {"busy": 1.0}
    assert speeds.of(12.0, {"sent": 300.0}) == {"sent_per_second": 100.0}
    assert speeds.of(13.0, {"sent": 5.0}) == {}, "it has begun anew"
    assert speeds.of(9.0, {"sent": 50.0}) == {}, "the clock has gone back"
    assert speeds.of(10.0, {"sent": 60.0}) == {"sent_per_second": 10.0}
