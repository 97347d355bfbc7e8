"""Time that a wall clock which is set cannot move."""

from __future__ import annotations

import pytest

from stoker.clock import ForwardClock, ManualClock, SystemClock


@pytest.mark.parametrize("jump_seconds", [3600.0, -3600.0, 1e9])
def test_a_clock_that_jumps_ends_no_job(jump_seconds: float) -> None:
    wall, monotonic = ManualClock(1_000.0), ManualClock(50.0)
    clock = SystemClock(wall.now, monotonic.now)
    assert clock.now() == 1_000.0
    wall.advance(jump_seconds)
    monotonic.advance(2.5)
    assert clock.now() == 1_002.5


def test_a_clock_that_goes_back_is_seen_to_go_on_from_where_it_was() -> None:
    hand = ManualClock(10_000.0)
    clock = ForwardClock(hand)
    assert clock.now() == 10_000.0
    hand.advance(-3600.0)
    assert clock.now() == 10_000.0
    hand.advance(5.0)
    assert clock.now() == 10_005.0, "at its own pace, not at once when the other has caught up"
    hand.advance(3600.0)
    assert clock.now() == 13_605.0


def test_it_goes_on_from_the_last_moment_that_an_earlier_server_wrote() -> None:
    hand = ManualClock(10_000.0)
    clock = ForwardClock(hand)
    assert clock.go_on_from(9_000.0) == 0.0 and clock.now() == 10_000.0
    assert clock.go_on_from(12_000.0) == 2_000.0 and clock.now() == 12_000.0
    hand.advance(1.0)
    assert clock.now() == 12_001.0
