"""What became of the time for which jobs held machines: of one job, and of many together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from stoker.api.services import access_of, services
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import job_id, split_job_id
from stoker.insight.goodput import Entry, Phase, goodput, total, weighed
from stoker.insight.ledgers import Kept

from .answers import a_router, answer, declares
from .schemas.goodput import Goodput, GoodputOfJob, GoodputRow
from .schemas.words import Name, Project, asks

DAY_SECONDS = 86400.0

router = a_router("jobs")


_NAMES: Mapping[str, Callable[[Kept, Entry], str]] = {
    "project": lambda kept, _: kept.project,
    "queue": lambda kept, _: kept.queue,
    "user": lambda kept, _: kept.owner,
    "job": lambda kept, _: "/".join(split_job_id(kept.job)),
    "node": lambda _, entry: entry.node,
    "accelerator": lambda _, entry: entry.accelerator or "no accelerator",
}
"""What the jobs of a row can have in common."""


@router.get("/projects/{project}/jobs/{name}/goodput", responses=declares(GoodputOfJob, 404))
def get_goodput(project: Project, name: Name, request: Request) -> Response:
    """What became of every second for which a job held its machines.

    While the job lives it is as it stands now, and up to half a minute old; when the job has ended it does not change any more.
    """
    site = services(request)
    found = site.ledgers.of(site.store.job(job_id(project, name)).job)
    seconds = total(found.entries, found.weight)
    told: GoodputOfJob = {
        "is_final": found.is_final,
        "weight": found.weight,
        "held_seconds": sum(seconds.values()),
        "goodput": goodput(seconds),
        "seconds": _told(seconds),
        "fault_seconds": sum(weighed(entry, found.weight) * entry.fault_seconds for entry in found.entries),
        "knows_lost": found.knows_lost,
        "usd": _usd(found.entries),
        "replicas": [
            {
                "attempt": entry.attempt,
                "replica": entry.replica,
                "node": entry.node,
                "accelerator": entry.accelerator,
                "accelerators": entry.accelerators,
                "held_seconds": entry.held_seconds,
                "seconds": _told(entry.seconds),
                "usd": entry.usd,
            }
            for entry in found.entries
        ],
    }
    return answer(told)


@router.get("/goodput", responses=declares(Goodput, 400))
def get_site_goodput(
    request: Request,
    since: Annotated[
        float, asks("From when, in seconds since 1970; 0: the last day.", 1760000000.0, ge=0, allow_inf_nan=False)
    ] = 0.0,
    until: Annotated[float, asks("Until when; 0: now.", 0.0, ge=0, allow_inf_nan=False)] = 0.0,
    by: Annotated[
        str, asks("What the jobs of a row have in common: project, queue, user, job, node or accelerator.", "project")
    ] = "project",
    project: Annotated[str, asks("Only of this project; empty for all.", "local")] = "",
    queue: Annotated[str, asks("Only of this queue; empty for all.", "default")] = "",
) -> Response:
    """What became of the time for which jobs held machines, of the jobs that you may see.

    An attempt that has begun before the span, or ended after it, counts in proportion.
    """
    if by not in _NAMES:
        raise BadSpec([Violation("by", f"{by[:80]!r} is not one of {', '.join(_NAMES)}")])
    site, sees = services(request), access_of(request).sees
    now = site.commands.clock.now()
    until = min(until or now, now)
    since = min(since or until - DAY_SECONDS, until)
    rows: dict[tuple[str, str], list[tuple[Kept, Entry]]] = defaultdict(list)
    for kept in site.ledgers.since(since, until):
        if sees(kept.project) and project in ("", kept.project) and queue in ("", kept.queue):
            for entry in kept.ledger.entries:
                rows[_NAMES[by](kept, entry), kept.ledger.weight].append((kept, entry))
    found: Goodput = {
        "since": since,
        "until": until,
        "rows": sorted((_row(*key, held) for key, held in rows.items()), key=lambda row: -row["held_seconds"]),
    }
    return answer(found)


def _row(name: str, weight: str, held: Sequence[tuple[Kept, Entry]]) -> GoodputRow:
    entries = [entry for _, entry in held]
    seconds = total(entries, weight)
    return {
        "name": name,
        "weight": weight,
        "jobs": len({kept.job for kept, _ in held}),
        "held_seconds": sum(seconds.values()),
        "goodput": goodput(seconds),
        "seconds": _told(seconds),
        "fault_seconds": sum(weighed(entry, weight) * entry.fault_seconds for entry in entries),
        "usd": _usd(entries),
    }


def _told(seconds: Mapping[Phase, float]) -> dict[str, float]:
    return {str(phase): round(seconds.get(phase, 0.0), 6) for phase in Phase}


def _usd(entries: Iterable[Entry]) -> float | None:
    known = [entry.usd for entry in entries]
    return None if not known or None in known else sum(usd for usd in known if usd is not None)
