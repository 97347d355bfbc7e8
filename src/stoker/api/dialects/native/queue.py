"""The queue: who waits, in the order in which they are looked at, and how every queue of the site stands."""

from __future__ import annotations

import inspect
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import access_of, services
from stoker.api.stream import reason
from stoker.core.ids import split_job_id
from stoker.insight.queue_view import Standing, Waiter
from stoker.scheduling.explain import wanted

from .answers import a_router, answer, declares
from .schemas.queue import Holding, QueueRow, TheQueue, WaitingJob
from .schemas.words import asks

MOST_SHOWN = 1000

router = a_router("queue")


@router.get("/queue", responses=declares(TheQueue, 400))
def show_queue(
    request: Request,
    project: Annotated[
        str, asks("Only jobs of this project; empty for all. Positions stay those in the whole queue.", "local")
    ] = "",
    limit: Annotated[int, asks("At most so many jobs; 0 to 1000, what is outside counts as the nearest.", 50)] = 50,
) -> Response:
    """All that wait, in the order in which they are looked at, and how the queues of the site stand.

    A token of some projects is shown the jobs of these; positions stay those in the whole queue.

    Who holds less than its queue's own quota goes before who borrows; then who has the smaller share by weight; among those
    of one sharer, the policy decides.
    """
    queue = services(request).queue
    view = queue.view(project=project, sees=access_of(request).sees, limit=max(0, min(limit, MOST_SHOWN)))
    site, policy = queue.rules.site, queue.rules.policy
    found: TheQueue = {
        "policy": site.policy,
        "order": (inspect.getdoc(policy) or "").partition("\n")[0].rstrip("."),
        "share_by": site.share_by,
        "backfill": str(site.backfill),
        "queues": [_queue_row(standing) for standing in view.queues],
        "waiting": [_job_row(waiter) for waiter in view.waiting],
        "more": view.more,
    }
    return answer(found)


def _queue_row(standing: Standing) -> QueueRow:
    queue = standing.queue
    resources = dict.fromkeys((*queue.quotas, *(name for name in sorted(standing.held) if "@" not in name)))
    return {
        "name": queue.name,
        "weight": queue.weight,
        "cohort": queue.cohort,
        "policy": queue.policy,
        "share": round(standing.part, 4),
        "full": standing.is_full,
        "running": standing.running,
        "waiting": standing.waiting,
        "resources": [_holding(standing, name) for name in resources],
    }


def _holding(standing: Standing, name: str) -> Holding:
    quota, held = standing.queue.quotas.get(name), standing.held.get(name, 0)
    if quota is None:
        return {
            "resource": name,
            "held": held / 1000,
            "quota": None,
            "borrowing": None,
            "lending": None,
            "borrowed": 0.0,
        }
    return {
        "resource": name,
        "held": held / 1000,
        "quota": quota.nominal_milli / 1000,
        "borrowing": None if quota.borrowing_milli is None else quota.borrowing_milli / 1000,
        "lending": None if quota.lending_milli is None else quota.lending_milli / 1000,
        "borrowed": max(0, held - quota.nominal_milli) / 1000,
    }


def _job_row(waiter: Waiter) -> WaitingJob:
    job = waiter.job
    project, name = split_job_id(job.id)
    return {
        "position": waiter.position,
        "project": project,
        "name": name,
        "queue": job.spec.queue,
        "owner": job.owner,
        "preemptible": job.spec.preemptible,
        "wants": wanted(job.spec),
        "since": job.queued_since,
        "share": round(waiter.share, 4),
        "key": waiter.key,
        "reason": reason(job),
    }
