"""What jobs have cost: how long they held machines, at the prices that were written when they got them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.core.job import Attempt, Job

HOUR_SECONDS = 3600.0
DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one job has cost on one day."""

    day: str  # in UTC: 2026-11-22
    job: str
    owner: str
    queue: str
    machine_hours: float  # of every machine of which it held something
    accelerator_hours: float  # a share of a device counts as its part
    usd: float | None  # at the pools' and the catalog's prices; None: of a part no price is known
    ordered_usd: float  # of that, what was paid for machines that were ordered


def bills(held: Iterable[tuple[Job, Attempt]], since: float, until: float) -> list[Bill]:
    """The bills from one moment to another (seconds since the epoch), by day and then as given."""
    found: dict[tuple[str, str], Bill] = {}
    for job, attempt in held:
        for day, hours in _days(max(since, attempt.placed_at), min(until, attempt.ended_at or until)):
            more = _bill(job, attempt, day, hours)
            known = found.get((day, job.id))
            found[day, job.id] = more if known is None else _sum(known, more)
    return sorted(found.values(), key=lambda bill: bill.day)


def _bill(job: Job, attempt: Attempt, day: str, hours: float) -> Bill:
    return Bill(
        day=day,
        job=job.id,
        owner=job.owner,
        queue=job.spec.queue,
        machine_hours=hours * len({place.node for place in attempt.placements}),
        accelerator_hours=hours * job.spec.accelerator_milli / 1000,
        usd=None if attempt.usd_per_hour is None else hours * attempt.usd_per_hour,
        ordered_usd=hours * attempt.ordered_usd_per_hour,
    )


def _sum(one: Bill, other: Bill) -> Bill:
    return Bill(
        day=one.day,
        job=one.job,
        owner=one.owner,
        queue=one.queue,
        machine_hours=one.machine_hours + other.machine_hours,
        accelerator_hours=one.accelerator_hours + other.accelerator_hours,
        usd=None if one.usd is None or other.usd is None else one.usd + other.usd,
        ordered_usd=one.ordered_usd + other.ordered_usd,
    )


def _days(began: float, ended: float) -> Iterator[tuple[str, float]]:
    """The days of a span, each with its hours."""
    while began < ended:
        midnight = (began // DAY_SECONDS + 1) * DAY_SECONDS
        yield datetime.fromtimestamp(began, UTC).date().isoformat(), (min(ended, midnight) - began) / HOUR_SECONDS
        began = midnight
