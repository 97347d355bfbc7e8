"""What jobs have cost: by day, at the prices that were written."""

from __future__ import annotations

from stoker.core.copies import replace
from stoker.core.job import Attempt, Job
from stoker.insight.bills import Bill, bills
from tests.builders import a_job, an_attempt

DAY = 86400.0


def held(
    job: Job, *, began: float, ended: float | None, usd: float | None = 2.0, number: int = 1
) -> tuple[Job, Attempt]:
    """An attempt that held one machine for so long."""
    attempt = an_attempt(job, placed_at=began, number=number)
    return job, replace(attempt, ended_at=ended, usd_per_hour=usd, ordered_usd_per_hour=usd or 0.0)


def test_a_bill_for_each_day_and_job() -> None:
    job = a_job(gpus=2, workers=1)
    found = bills([held(job, began=DAY - 3600, ended=DAY + 7200)], 0.0, 10 * DAY)
    plain = Bill(
        day="1970-01-01",
        job="p/j",
        owner="u",
        queue="default",
        machine_hours=1.0,
        accelerator_hours=4.0,
        usd=2.0,
        ordered_usd=2.0,
    )
    second = replace(plain, day="1970-01-02", machine_hours=2.0, accelerator_hours=8.0, usd=4.0, ordered_usd=4.0)
    assert found == [plain, second]


def test_attempts_of_one_job_are_one_bill() -> None:
    job = a_job(gpus=1)
    (bill,) = bills(
        [held(job, began=0, ended=3600), held(job, began=7200, ended=None, number=2)],
        0.0,
        9000.0,
    )
    assert (bill.machine_hours, bill.usd) == (1.5, 3.0)


def test_what_lies_before_is_not_in_it() -> None:
    (bill,) = bills([held(a_job(), began=0, ended=7200)], 3600.0, 10 * DAY)
    assert bill.machine_hours == 1.0
    assert bills([held(a_job(), began=0, ended=3600)], 3600.0, 10 * DAY) == []


def test_one_part_without_a_price_leaves_the_whole_unknown() -> None:
    job = a_job()
    (bill,) = bills([held(job, began=0, ended=60), held(job, began=60, ended=120, usd=None, number=2)], 0.0, DAY)
    assert (bill.usd, bill.ordered_usd) == (None, 2.0 / 60)
