"""Run times of ended jobs, from the narrowest circle that has enough of them."""

from __future__ import annotations

import pytest

from stoker.core.job import Job
from stoker.scheduling.history import MOST, History
from tests.builders import a_job


def ended(name: str, owner: str = "u", gpus: int = 1) -> Job:
    return a_job(name, owner=owner, gpus=gpus)


def test_nothing_is_known_of_nothing() -> None:
    assert History().remaining_seconds(a_job(), 0.0) is None


def test_the_narrowest_circle_answers() -> None:
    history = History()
    for n in range(5):
        history.add(ended(f"train_{n}"), 100.0)
        history.add(ended(f"eval_{n}"), 10.0)
        history.add(ended(f"x_{n}", owner="v"), 1000.0)
    assert history.remaining_seconds(a_job("train_77", gpus=1), 0.0) == 100.0
    assert history.remaining_seconds(a_job("eval_1", gpus=1), 0.0) == 10.0
    assert history.remaining_seconds(a_job("other", gpus=1, owner="w"), 0.0) == 100.0, "everybody's median"


@pytest.mark.parametrize("ran, left", [(0.0, 30.0), (25.0, 15.0), (49.0, 1.0)])
def test_only_those_count_that_ran_longer(ran: float, left: float) -> None:
    history = History()
    for seconds in (10.0, 20.0, 30.0, 40.0, 50.0):
        history.add(ended("j"), seconds)
    assert history.remaining_seconds(a_job("j", gpus=1), ran) == left


def test_who_has_outlived_all_is_as_likely_to_run_as_long_again() -> None:
    history = History()
    for _ in range(5):
        history.add(ended("j"), 10.0)
    assert history.remaining_seconds(a_job("j", gpus=1), 500.0) == 500.0


def test_old_runs_are_forgotten() -> None:
    history = History()
    for n in range(MOST + 50):
        history.add(ended("j"), float(n + 1))
    assert len(history.runs(a_job("j", gpus=1))) == MOST
    assert history.runs(a_job("j", gpus=1))[0] == 51.0
