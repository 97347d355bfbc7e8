"""What a job took: its time by what it did, its machines' hours, and what those cost where a price is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.ids import job_id
from stoker.core.job import Attempt, Job
from stoker.core.spec import Group, JobSpec
from stoker.hardware.prices import Price, quote
from stoker.insight.bills import bills

from .answers import a_router, answer, declares
from .schemas.jobs import Metrics
from .schemas.words import Name, Project

router = a_router("jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The time of a job, in seconds: without machines, with machines until every replica ran, and from then on."""

    queued: float
    preparing: float
    running: float

    @property
    def held(self) -> float:
        """For how long it had its machines."""
        return self.preparing + self.running


@router.get("/projects/{project}/jobs/{name}/metrics", responses=declares(Metrics, 404))
def get_metrics(project: Project, name: Name, request: Request) -> Response:
    """What a job took so far: its time, its machines' hours, and what they would cost in the cloud.

    What is not known is null: nothing is guessed.
    """
    site, job = services(request), job_id(project, name)
    listed, attempts = site.store.job(job), site.store.attempts(job)
    spent, spec = spent_by(listed.job, attempts, site.commands.clock.now()), listed.job.spec
    accelerators = sum(group.count * group.machine.accelerator_milli for group in spec.groups) / 1000
    now = site.commands.clock.now()
    cost, as_of, notes = cost_of(spec, spent.held / 3600)
    if not spec.pool and attempts and all(attempt.usd_per_hour is not None for attempt in attempts):
        cost = round(
            sum(bill.usd or 0.0 for attempt in attempts for bill in bills([(listed.job, attempt)], 0.0, now)), 6
        )
    found: Metrics = {
        "state": str(listed.state),
        "queued_seconds": round(spent.queued, 3),
        "preparing_seconds": round(spent.preparing, 3),
        "running_seconds": round(spent.running, 3),
        "attempts": len(attempts),
        "restarts": sum(replica.restarts for attempt in attempts for replica in attempt.replicas),
        "machine_hours": round(spec.replicas * spent.held / 3600, 6),
        "accelerator_hours": round(accelerators * spent.held / 3600, 6),
        "cost_usd": cost,
        "price_as_of": as_of,
        "cost_notes": notes,
    }
    return answer(found)


def spent_by(job: Job, attempts: Sequence[Attempt], now: float) -> Spent:
    """The three times of a job, which add up to the time from its submission to its end, or to now."""
    preparing = running = 0.0
    for attempt in attempts:
        end = now if attempt.ended_at is None else attempt.ended_at
        ran = end if attempt.started_at is None else attempt.started_at
        preparing += max(0.0, ran - attempt.placed_at)
        running += max(0.0, end - ran)
    whole = (now if job.ended_at is None else job.ended_at) - job.submitted_at
    return Spent(queued=max(0.0, whole - preparing - running), preparing=preparing, running=running)


def cost_of(spec: JobSpec, hours: float) -> tuple[float | None, str | None, list[str]]:
    """What the machines of a job cost in US dollars, the date of the oldest price in it, and what to know about it.

    One machine without a price leaves the cost unknown.
    """
    if spec.pool:
        return None, None, ["a rehearsal runs on virtual nodes, which cost nothing"]
    usd, dates, notes = 0.0, set[str](), dict[str, None]()
    for group in spec.groups:
        found = _price(group, spec.region)
        if isinstance(found, str):
            return None, None, [found]
        usd += group.count * found.usd_per_hour * hours
        dates.add(found.as_of)
        notes |= dict.fromkeys(found.notes)
    return round(usd, 6), min(dates), list(notes)


def _price(group: Group, region: str) -> Price | str:
    """The price of one machine by the hour, or why there is none."""
    machine = group.machine
    if not machine.type:
        return f"the {group.role} names no machine type, so no price is known"
    found = quote(machine.type, machine.accelerator, machine.accelerators, region)
    return found if isinstance(found, Price) else found.why
