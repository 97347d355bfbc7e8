"""A crude future for a long queue: devices are counted, and handed out in the order of the queue.

Where on the nodes they are, quotas, preemption and who slips in between are left out, so it takes milliseconds where playing
takes seconds. Alone it is a rough guess; beside some futures that were played under the same luck, it says how wide the others
lie (a control variate).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.core.job import Attempt, Job
from stoker.core.spec import ANY_ACCELERATOR, JobSpec
from stoker.scheduling.free import Free

from .future import Now, Outcome
from .run_times import chance_of, total_seconds


@dataclass(frozen=True, slots=True)
class _Load:
    """What one job takes, and what decides for how long."""

    job: Job
    amount: int
    ran: float
    limit: float


def counted(now: Now, job: Job, ahead: Sequence[Job], free: Free, draws: int) -> list[Outcome]:
    """What becomes of a job, draw by draw, if all before it that want the same kind of machine start before it."""
    holds = [group for group in job.spec.groups if group.machine.accelerator_milli] or list(job.spec.groups)
    places = sorted({int(n) for group in holds for n in free.candidates(job.spec, group.machine)})
    names = {free.nodes[n].name for n in places}
    has_devices = job.spec.accelerator_milli > 0
    amounts = free.milli if has_devices else free.vcpus_milli
    left = int(amounts[places].sum()) if places else 0
    running = []
    for attempt in now.world.attempts.values():
        holder = now.world.jobs[attempt.job]
        amount, held = _held_on(names, holder, attempt, has_devices), holder.held_seconds
        if amount:
            running.append(_Load(holder, amount, held + now.at - attempt.placed_at, held + _limit(holder, attempt)))
    waiting = [
        _Load(
            other,
            _amount(other.spec, has_devices),
            other.held_seconds,
            other.held_seconds + other.spec.limits.running_seconds,
        )
        for other in (*ahead, job)
        if other is job or _competes(job.spec, other.spec)
    ]
    return [_play(now, running, waiting, left, draw) for draw in range(draws)]


def _play(now: Now, running: Sequence[_Load], waiting: Sequence[_Load], left: int, draw: int) -> Outcome:
    """Hand out what comes free, to one after the other."""
    ends = [(max(now.at, now.at - load.ran + _total(now, load, draw)), load.amount, load.job.id) for load in running]
    heapq.heapify(ends)
    moment, last = now.at, ""
    for load in waiting:
        while left < load.amount and ends:
            moment, amount, last = heapq.heappop(ends)
            left += amount
        if left < load.amount:
            return Outcome(started_at=None, played_until=moment, work=0.0)
        left -= load.amount
        heapq.heappush(ends, (moment - load.ran + _total(now, load, draw), load.amount, load.job.id))
    return Outcome(started_at=moment, played_until=moment, work=0.0, let_in_by=last)


def _total(now: Now, load: _Load, draw: int) -> float:
    return total_seconds(now.known.past(load.job), load.ran, load.limit, chance_of(load.job, draw))


def _limit(job: Job, attempt: Attempt) -> float:
    started = attempt.placed_at if attempt.started_at is None else attempt.started_at
    return job.spec.limits.running_seconds + started - attempt.placed_at


def _competes(one: JobSpec, other: JobSpec) -> bool:
    """Whether they want one kind of device of one pool."""
    mine, theirs = one.accelerator_types, other.accelerator_types
    if one.pool != other.pool or not mine or not theirs:
        return one.pool == other.pool and not mine and not theirs
    return bool(mine & theirs) or ANY_ACCELERATOR in mine | theirs


def _amount(spec: JobSpec, has_devices: bool) -> int:
    if has_devices:
        return spec.accelerator_milli
    return sum(round(1000 * group.machine.vcpus) * group.count for group in spec.groups)


def _held_on(names: set[str], job: Job, attempt: Attempt, has_devices: bool) -> int:
    """What an attempt holds on these nodes."""
    machines = {group.role: group.machine for group in job.spec.groups}
    return sum(
        machines[place.role].accelerator_milli if has_devices else round(1000 * machines[place.role].vcpus)
        for place in attempt.placements
        if place.node in names
    )
