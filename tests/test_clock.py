"""Time that a wall clock which is set cannot move."""

from __future__ import annotations

import pytest

from stoker.clock import ManualClock, SystemClock


@pytest.mark.parametrize("jump_seconds", [3600.0, -3600.0, 1e9])
def test_a_clock_that_jumps_ends_no_job(jump_seconds: float) -> None:
    wall, monotonic = ManualClock(1_000.0), ManualClock(50.0)
    clock = SystemClock(wall.now, monotonic.now)
    assert clock.now() == 1_000.0
    wall.advance(jump_seconds)
    monotonic.advance(2.5)
    assert clock.now() == 1_002.5
