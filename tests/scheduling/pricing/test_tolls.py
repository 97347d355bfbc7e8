"""How those that can go to few kinds of nodes load them."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.scheduling.pricing.tolls import even_loads


def test_who_has_a_choice_goes_where_it_is_emptier() -> None:
    asked, capacity = np.array([1.0, 1.0]), np.array([2.0, 1.0])
    accepts = np.array([[True, False], [True, True]])  # the first can go to one kind only
    assert even_loads(asked, accepts, capacity) == pytest.approx([2 / 3, 2 / 3], abs=0.01)


def test_what_nobody_needs_is_not_loaded() -> None:
    found = even_loads(np.array([3.0]), np.array([[True, False]]), np.array([2.0, 1.0]))
    assert found == pytest.approx([1.5, 0])
