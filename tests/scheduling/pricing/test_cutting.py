"""What the rest of a device is worth."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.scheduling.pricing.cutting import cutting_values


def worth(*sizes: tuple[int, float]) -> list[float]:
    """By rest, for sizes that are asked for so often."""
    found = cutting_values(np.array([size for size, _ in sizes]), np.array([weight for _, weight in sizes]))
    return [round(value, 6) for value in found.tolist()]


def test_halves_are_worth_half() -> None:
    found = worth((500, 1))
    assert (found[1000], found[999], found[500], found[499]) == (1000, 500, 500, 0)


def test_what_wastes_much_costs_what_it_spoils() -> None:
    assert worth((340, 1))[340] == 500, "two fit on a device"


def test_sizes_that_fill_a_device_share_its_worth() -> None:
    found = worth((600, 1), (400, 1))
    assert found[600] + found[400] == found[1000] == 1000


def test_a_rest_that_no_size_fits_is_worth_nothing() -> None:
    assert worth((600, 1), (400, 1))[390] == 0


@pytest.mark.parametrize("seed", range(30))
def test_more_is_never_worth_less(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.sort(random.choice(np.arange(1, 1001), int(random.integers(1, 33)), replace=False))
    found = cutting_values(sizes, random.random(len(sizes)) + 1e-3)
    assert (np.diff(found) >= -1e-9).all() and found[1000] == pytest.approx(1000) and found[0] == 0
    pairs = found[:, None] + found[None, :]
    sums = np.add.outer(np.arange(1001), np.arange(1001))
    assert (pairs[sums <= 1000] <= found[sums[sums <= 1000]] + 1e-6).all(), (
        "two rests are worth no more than both in one"
    )
