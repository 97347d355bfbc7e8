"""Whom a policy lets another be stopped for: the smaller claim is before the greater hold."""

from __future__ import annotations

from stoker.scheduling.policies.priority import Priority
from tests.builders import a_job
from tests.contract.policy_contract import running, waiting


def test_greater_priority_takes_from_lesser_and_never_the_other_way_round() -> None:
    policy = Priority()
    low, high = a_job(name="low", priority=1), a_job(name="high", priority=9)
    for waiter, runner, takes in ((high, low, True), (low, high, False), (high, high, False)):
        claim, hold = policy.claim(waiting(waiter)), policy.hold(running(runner, 3600.0))
        assert claim is not None and hold is not None and (claim < hold) == takes
