"""What the site has done: to replay it under other rules (`stoker policy replay`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import services
from stoker.core.job import Attempt, Job
from stoker.core.node import Node
from stoker.core.states import FINAL_JOB_STATES

from .answers import a_router, answer, declares
from .schemas.history import History, PastJob, PastNode
from .schemas.words import asks

MOST_JOBS = 20_000

router = a_router("jobs")


@router.get("/history", responses=declares(History, 400))
def get_history(
    request: Request,
    since: Annotated[
        float, asks("Jobs that have ended since then, in seconds since 1970, and those that run.", 1767139200.0)
    ] = 0.0,
    limit: Annotated[int, asks("At most so many that have ended, the newest; 1 to 20000.", 1000)] = MOST_JOBS,
) -> Response:
    """The site's rules, its machines, and the jobs of every project that have run: what it takes to replay them.

    Oldest first, in one answer.
    """
    site, limit = services(request), max(1, min(limit, MOST_JOBS))
    now = site.commands.clock.now()
    ended = site.store.ended(since, limit + 1)
    world = site.store.world()
    kept = [job for job in ended[-limit:] if not job.spec.pool and job.state in FINAL_JOB_STATES]
    live = [job for job in world.jobs.values() if not job.spec.pool]
    found: History = {
        "now": now,
        "site": asdict(site.commands.rules.site),
        "nodes": [_node(node) for node in world.nodes.values() if not node.pool],
        "jobs": [*(_job(job, None, now) for job in kept), *(_job(job, world.attempt(job.id), now) for job in live)],
        "is_whole": len(ended) <= limit,
    }
    return answer(found)


def _job(job: Job, attempt: Attempt | None, now: float) -> PastJob:
    spec = job.spec
    return {
        "id": job.id,
        "owner": job.owner,
        "queue": spec.queue,
        "priority": spec.priority,
        "preemptible": spec.preemptible,
        "resumable": spec.resumable,
        "region": spec.region,
        "state": str(job.state),
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "held_seconds": _held_seconds(job, attempt, now),
        "preemptions": job.preemptions,
        "failures": job.failures,
        "groups": [
            {
                "role": group.role,
                "count": group.count,
                "vcpus": group.machine.vcpus,
                "memory_gb": group.machine.memory_gb,
                "accelerator": group.machine.accelerator,
                "accelerator_milli": group.machine.accelerator_milli,
            }
            for group in spec.groups
        ],
    }


def _held_seconds(job: Job, attempt: Attempt | None, now: float) -> float:
    """Of jobs that ended before this was counted, what lies between start and end."""
    if not job.held_seconds and job.started_at is not None and job.ended_at is not None:
        return job.ended_at - job.started_at
    return job.held_seconds + (max(0.0, now - attempt.placed_at) if attempt else 0.0)


def _node(node: Node) -> PastNode:
    return {
        "name": node.name,
        "region": node.region,
        "zone": node.zone,
        "rack": node.rack,
        "accelerator": node.accelerator,
        "accelerators": len(node.devices),
        "vcpus": node.vcpus,
        "memory_gb": node.memory_gb,
        "soft": node.soft,
    }
