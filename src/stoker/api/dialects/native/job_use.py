"""What a job has used, gathered: what its GPUs showed while it held them, and what it told of its steps."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stoker.api.services import Services
from stoker.core.ids import job_id
from stoker.core.job import Job
from stoker.insight.job_use import BUSY, HOST_MEMORY, MEMORY, SM, TOTAL, Seen, Used, used_by
from stoker.sampling.monitor import HOST
from stoker.sampling.series import GREATEST, MEAN

from .steps import training_of


def used_in(site: Services, project: str, name: str) -> tuple[Used, str]:
    """What a job has used in its newest attempt, and the precision that it asked for."""
    listed = site.store.job(job_id(project, name))
    _, training, _ = training_of(site, listed.job.id)
    seen, host = _seen(site, listed.job)
    chief = listed.job.spec.groups[0].machine
    used = used_by(seen, training, host_peak_bytes=host, asked_gb=chief.memory_gb)
    return used, listed.job.spec.program.variables.get("STOKER_PRECISION", "")


def _seen(site: Services, job: Job) -> tuple[list[Seen], float | None]:
    """What its GPUs showed, and the most that was in use of its machines' memory if it has none."""
    attempts = site.store.attempts(job.id)
    history = site.monitor.history
    if not attempts or history is None:
        held = bool(job.spec.accelerator_milli)
        return [Seen() for _ in range(job.spec.accelerator_milli // 1000 or held)], None
    newest = max(attempts, key=lambda attempt: attempt.number)
    end = max(newest.placed_at + 1.0, site.commands.clock.now() if newest.ended_at is None else newest.ended_at)
    seen: list[Seen] = []
    host: list[float] = []
    for place in newest.placements:
        for source in place.devices:
            points = history.points(place.node, source, newest.placed_at, end, names=(MEMORY, BUSY, SM, TOTAL))
            table = {name: points.table[row] for row, name in enumerate(points.names)}
            total = _greatest(table[TOTAL][:, GREATEST].tolist()) if TOTAL in table else None
            seen.append(
                Seen(
                    memory_bytes=table[MEMORY][:, GREATEST].tolist() if MEMORY in table else (),
                    total_bytes=total or 0.0,
                    busy_percent=table[BUSY][:, MEAN].tolist() if BUSY in table else (),
                    sm_ratio=table[SM][:, MEAN].tolist() if SM in table else (),
                )
            )
        if not place.devices:
            points = history.points(place.node, HOST, newest.placed_at, end, names=(HOST_MEMORY,))
            host += points.table[:, :, GREATEST].reshape(-1).tolist()
    return seen, _greatest(host)


def _greatest(values: Iterable[float]) -> float | None:
    return max((value for value in values if not math.isnan(value)), default=None)
