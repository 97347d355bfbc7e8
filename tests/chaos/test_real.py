"""Real faults, in a short form: the same as `python -m tests.chaos.real`, which goes on for hundreds of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .faults import FAULTS
from .real import run_round, show
from .rig import build_clock, can_mount

pytestmark = pytest.mark.live


@pytest.mark.campaign
def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    mounts, clock = can_mount(), build_clock(tmp_path)
    plan = ["cut cache", "kill all", "kill server while it starts"]
    plan += ["set clock", "set clock back"] * (clock is not None)
    plan += ["fill disk", "kill on a full disk"] * mounts
    tally = run_round(tmp_path / "round", "test", plan, away_seconds=0.5, on_tmpfs=mounts, clock=clock)
    assert not tally.wrong, "\n".join(tally.wrong) + "\n" + show(tally, 0)
    assert tally.cycles == len(plan) and tally.findings.acknowledged


def test_every_fault_says_what_it_is() -> None:
    assert all(fault.__doc__ for fault in FAULTS.values())
