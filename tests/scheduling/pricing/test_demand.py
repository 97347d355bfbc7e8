"""When it is learnt from what was asked for, and how long that counts."""

from __future__ import annotations

from stoker.scheduling.pricing.demand import EVERY, FIRST, HALF_LIFE, MOST_KINDS, Demand, Learner, ask_of
from tests.builders import a_spec

ONE = a_spec(gpus=1)
ASK = ask_of(ONE.groups[0].machine, ONE)


def test_it_renews_when_the_jobs_have_doubled_and_then_every_so_many() -> None:
    learner, renewed_at = Learner(), []
    seen = learner.demand
    for number in range(1, 3 * EVERY + 1):
        learner.add(ONE)
        if learner.demand is not seen:
            seen = learner.demand
            renewed_at.append(number)
            assert seen.weights[ASK] <= number
    assert renewed_at == [FIRST, 64, 128, 256, 512, 1024, 2048, 3072]


def test_every_replica_counts() -> None:
    learner = Learner()
    learner.add(a_spec(gpus=1, workers=FIRST, ps=2))
    assert [weight for _, weight in sorted(learner.demand.weights.items())] == [2, FIRST + 1]


def test_old_jobs_fade_and_so_does_the_first_guess() -> None:
    learner, other = Learner(), a_spec(gpus=2)
    learner.add(a_spec(gpus=1, workers=FIRST - 1))
    for _ in range(2 * HALF_LIFE):
        learner.add(other)
    learner.renew()
    weights = learner.demand.weights
    assert weights[ASK] < FIRST / 3 and learner.demand.guess < 1 / 3
    assert weights[ask_of(other.groups[0].machine, other)] < 2 * HALF_LIFE


def test_what_nobody_has_asked_for_in_long_is_gone() -> None:
    learner, other = Learner(), a_spec(gpus=2, workers=EVERY - 1)
    learner.add(a_spec(gpus=1, workers=FIRST - 1))
    for _ in range(20 * HALF_LIFE // EVERY):
        learner.add(other)
    assert set(learner.demand.weights) == {ask_of(other.groups[0].machine, other)} and not learner.demand.guess


def test_of_too_many_kinds_the_rarer_are_forgotten() -> None:
    learner = Learner()
    for number in range(MOST_KINDS + 1):
        learner.add(a_spec(vcpus=1 + number))
    for _ in range(5):
        learner.add(ONE)
    learner.renew()
    assert len(learner.demand.weights) == MOST_KINDS // 2 and ASK in learner.demand.weights


def test_jobs_that_are_known_count_alike() -> None:
    assert Demand.of([ONE] * 5000).weights == {ASK: 5000}
