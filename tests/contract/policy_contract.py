"""What every policy must do."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.core.job import Job
from stoker.scheduling.base import Facts, Policy, Shift
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
    def test_keys_can_be_compared(self, job: Job, other: Job) -> None:
        policy = self.make()
        key, another = policy.key(waiting(job)), policy.key(waiting(other))
        assert len(key) == len(another) and all(math.isfinite(part) for part in (*key, *another))
        if policy.shifts is Shift.NEVER:
            assert key == policy.key(waiting(job, 3e6)), "the key of one that waits stays"

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS)
    def test_nobody_takes_the_place_of_its_like(self, job: Job) -> None:
        assert not takes_the_place(self.make(), job, job, 0.0)

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(one=JOBS, other=JOBS)
    def test_no_two_take_each_others_places(self, one: Job, other: Job) -> None:
        policy = self.make()
        assert not (takes_the_place(policy, one, other, 0.0) and takes_the_place(policy, other, one, 0.0))

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS, ran=RAN)
    def test_it_looks_again_in_the_future(self, job: Job, ran: float) -> None:
        turn = self.make().changes_in(running(job, ran))
        assert turn is None or 0 <= turn < math.inf

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS)
    def test_patience_ends(self, job: Job) -> None:
        assert 0 <= self.make().patience_seconds(waiting(job)) < 86400

    @settings(max_examples=100, suppress_health_check=OF_A_CONTRACT)
    @given(job=JOBS)
    def test_it_says_what_its_key_comes_from(self, job: Job) -> None:
        assert self.make().tells(waiting(job)) is not None


def takes_the_place(policy: Policy, waiter: Job, runner: Job, ran: float) -> bool:
    """Whether one that waits would have the place of one that runs."""
    claim, hold = policy.claim(waiting(waiter)), policy.hold(running(runner, ran))
    return claim is not None and hold is not None and claim < hold
