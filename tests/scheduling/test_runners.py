"""Who would be stopped first for others."""

from __future__ import annotations

import pytest

from stoker.core.site import Site
from stoker.scheduling.history import History
from stoker.scheduling.rules import rules_of
from stoker.scheduling.runners import Kind, Runners
from tests.builders import a_job, an_attempt


@pytest.mark.parametrize("order", [(6, 10, 7), (10, 7, 6), (7, 10, 6)])
def test_the_youngest_come_first_in_whatever_order_they_were_read(order: tuple[int, ...]) -> None:
    runners = Runners(rules_of(Site()), History())
    for n in order:
        job = a_job(f"j{n}", gpus=1)
        runners.add(job, an_attempt(job, placed_at=float(n)))
    assert runners.all_of("default", Kind.OTHER) == ["p/j10.1", "p/j7.1", "p/j6.1"]
    runners.discard("p/j7.1")
    assert runners.all_of("default", Kind.OTHER) == ["p/j10.1", "p/j6.1"]
    assert runners.queues == ["default"]


def test_who_has_gone_is_not_remembered_though_nobody_asks_for_victims() -> None:
    runners = Runners(rules_of(Site()), History())
    for n in range(1000):
        job = a_job(f"j{n}", gpus=1)
        runners.add(job, an_attempt(job, placed_at=float(n)))
        if n:  # the first one runs on
            runners.discard(f"p/j{n}.1")
    assert len(runners._growing) < 100
