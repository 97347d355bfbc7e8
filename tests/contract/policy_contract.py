"""What every policy must do."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.core.job import Job
from stoker.scheduling.base import Facts, Policy
from stoker.scheduling.history import History
from tests.builders import a_job, an_attempt

JOBS = st.builds(
    lambda n, at, gpus, priority, held: a_job(f"j{n}", at=at, gpus=gpus, priority=priority, held_seconds=held),
    st.integers(0, 99),
    st.floats(0, 1e6),
    st.integers(0, 8),
    st.integers(0, 1000),
    st.floats(0, 1e6),
)
RAN = st.floats(0, 1e6)


def waiting(job: Job, now: float = 2e6) -> Facts:
    """What a policy knows of one that waits."""
    return Facts(job, None, now, History())


def running(job: Job, ran_seconds: float, now: float = 2e6) -> Facts:
    """What a policy knows of one that runs."""
    return Facts(job, an_attempt(job, placed_at=now - ran_seconds), now, History())


OF_A_CONTRACT = [HealthCheck.differing_executors]  # every subclass runs the same function


class PolicyContract:
    """Subclass it and give `make`."""

    def make(self) -> Policy:
        """The policy."""
        raise NotImplementedError

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS, other=JOBS)
    def test_keys_can_be_compared_and_stay_while_a_job_waits(self, job: Job, other: Job) -> None:
        key = self.make().key(waiting(job, 2e6))
        assert key == self.make().key(waiting(job, 3e6))
        assert len(key) == len(self.make().key(waiting(other))) and all(math.isfinite(part) for part in key)

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS, ran=RAN)
    def test_nobody_takes_the_place_of_its_like(self, job: Job, ran: float) -> None:
        assert not self.make().preempts(waiting(job), running(job, 0.0))

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(one=JOBS, other=JOBS)
    def test_no_two_take_each_others_places(self, one: Job, other: Job) -> None:
        there = self.make().preempts(waiting(one), running(other, 0.0))
        assert not (there and self.make().preempts(waiting(other), running(one, 0.0)))

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS, ran=RAN)
    def test_it_looks_again_in_the_future(self, job: Job, ran: float) -> None:
        turn = self.make().changes_in(running(job, ran))
        assert turn is None or 0 <= turn < math.inf
