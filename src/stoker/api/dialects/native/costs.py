"""What machines cost: the pools, the bills of jobs, and the budgets of projects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import Services, access_of, services
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.node import pool_record
from stoker.core.site import Pool
from stoker.core.world import World
from stoker.insight.bills import bills
from stoker.scheduling.pools import count_by_pool, is_closed, last_failure
from stoker.scheduling.spending import month_start

from .answers import a_router, answer, declares
from .schemas import costs as c
from .schemas.words import asks

router = a_router("costs")


@router.get("/pools", responses=declares(c.Pools))
def list_pools(request: Request) -> Response:
    """The pools of the site file.

    Machines of theirs are ordered when a job needs them, and given back when nobody does.
    """
    site, sees = services(request), access_of(request).sees
    now = site.commands.clock.now()
    with site.live.look() as world:
        rows = [_pool(pool, world, now) for pool in site.commands.rules.site.pools.values()]
    for row in rows:
        row["failures"] = [fault for fault in row["failures"] if sees(split_job_id(fault["job"])[0])]
    found: c.Pools = {"pools": rows}
    return answer(found)


@router.get("/costs", responses=declares(c.Costs, 400))
def get_costs(
    request: Request,
    since: Annotated[
        float, asks("From when, in seconds since 1970; 0: from the beginning of this month, UTC.", 1760000000.0)
    ] = 0.0,
    project: Annotated[str, asks("Only of this project; empty for all.", "local")] = "",
) -> Response:
    """What jobs have cost.

    By day: how long they held machines, at the prices of the pools and of the catalog. A price is written down when a job gets
    its machines. Of a machine that is shared, a job pays its share.
    """
    site, sees = services(request), access_of(request).sees
    now = site.commands.clock.now()
    month = month_start(now)
    since = min(since or month, now)
    held = [
        (job, attempt)
        for job, attempt in site.store.held_since(min(since, month))
        if sees(name := split_job_id(job.id)[0]) and project in ("", name)
    ]
    projects = {split_job_id(job.id)[0] for job, _ in held}
    found: c.Costs = {
        "since": since,
        "until": now,
        "bills": [
            {"project": name, **asdict(bill), "job": job}  # type: ignore[typeddict-item]
            for bill in bills(held, since, now)
            for name, job in [split_job_id(bill.job)]
        ],
        "budgets": _budgets(site, projects, held, now),
    }
    return answer(found)


def _budgets(site: Services, projects: set[str], held: Sequence[tuple[Job, Attempt]], now: float) -> list[c.Budget]:
    """The budgets of those who have one. `held`: with all attempts of this month."""
    rules = site.commands.rules.site
    spent, by_the_hour = defaultdict[str, float](float), defaultdict[str, float](float)
    for bill in bills(held, month_start(now), now):
        spent[split_job_id(bill.job)[0]] += bill.ordered_usd
    for job, attempt in held:
        if attempt.ended_at is None:
            by_the_hour[split_job_id(job.id)[0]] += attempt.ordered_usd_per_hour
    return [
        {
            "project": project,
            "usd_per_hour": budget.usd_per_hour,
            "held_usd_per_hour": by_the_hour[project],
            "usd_per_month": budget.usd_per_month,
            "spent_usd": spent[project],
        }
        for project in sorted(projects)
        for budget in [rules.budget(project)]
        if budget.usd_per_hour is not None or budget.usd_per_month is not None
    ]


def _pool(pool: Pool, world: World, now: float) -> c.Pool:
    record = world.records.get(pool_record(pool.name))
    cordon = None if record is None else record.cordon
    return {
        "name": pool.name,
        "machine_type": pool.machine,
        "accelerator": pool.accelerator,
        "accelerators": pool.accelerators,
        "vcpus": pool.vcpus,
        "memory_gb": pool.memory_gb,
        "region": pool.region,
        "zone": pool.zone,
        "spot": pool.spot,
        "usd_per_hour": pool.usd_per_hour,
        "least": pool.least,
        "most": pool.most,
        "there": count_by_pool(world.nodes.values())[pool.name],
        "takes_orders": not is_closed(world, pool.name) and last_failure(world, pool.name, now) is None,
        "cordon": None if cordon is None else {"why": cordon.why, "by": cordon.by, "at": cordon.at, "empty_at": None},
        "failures": [{"job": f.job, "at": f.at, "what": f.what} for f in (() if record is None else record.faults)],
    }
