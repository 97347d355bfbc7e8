"""What every policy must do."""

from __future__ import annotations

import random

import pytest

from stoker.core.world import World
from stoker.scheduling.base import Policy
from tests.builders import a_job


class PolicyContract:
    """Subclass it and give a fixture `policy`."""

    @pytest.fixture
    def policy(self) -> Policy:
        """The policy."""
        raise NotImplementedError

    def test_the_order_is_total_whatever_the_order_of_asking(self, policy: Policy) -> None:
        jobs = [a_job(f"j{n}", at=float(n % 3), gpus=n % 2, priority=n % 4) for n in range(24)]
        world = World(jobs={job.id: job for job in jobs})
        expected = [job.id for job in policy.order(world, jobs, 10.0)]
        for seed in range(10):
            shuffled = random.Random(seed).sample(jobs, len(jobs))
            assert [job.id for job in policy.order(world, shuffled, 10.0)] == expected

    def test_nobody_is_lost_and_nobody_comes_twice(self, policy: Policy) -> None:
        jobs = [a_job(f"j{n}") for n in range(10)]
        found = policy.order(World(jobs={job.id: job for job in jobs}), jobs, 10.0)
        assert sorted(job.id for job in found) == sorted(job.id for job in jobs)

    def test_the_first_is_held_back_by_nobody(self, policy: Policy) -> None:
        assert policy.admits(a_job(), []) is None

    def test_who_is_held_back_is_told_why_and_what_to_do(self, policy: Policy) -> None:
        reason = policy.admits(a_job("second", gpus=1), [a_job("first", gpus=1)])
        if reason is not None:
            assert reason.code and reason.text and reason.action
