"""Gathers the evidence of a job: of its newest attempt that has trained, over its last minutes."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.core.changes import Note
from stoker.core.job import Attempt, Job
from stoker.insight.holders import holders_of
from stoker.insight.ledgers import lines_by_attempt
from stoker.insight.live_world import LiveWorld
from stoker.insight.replica_lives import Life, lives_of
from stoker.insight.training_steps import progress_of
from stoker.sampling.monitor import Monitor
from stoker.store.base import Store
from stoker.store.logs import STEPS, USAGE, Logs

from .evidence import SPAN_SECONDS, Evidence, GpuUse, uses_of

_POINTS = int(SPAN_SECONDS)


def evidence_of(job: Job, store: Store, logs: Logs, monitor: Monitor, live: LiveWorld, now: float) -> Evidence:
    """What is known of how a job trains now, or trained last."""
    attempts = store.attempts(job.id)
    if not attempts:
        return Evidence()
    steps, uses = (lines_by_attempt(logs, attempts, job.id, stream) for stream in (STEPS, USAGE))
    attempt = next((one for one in reversed(attempts) if one.number in steps), attempts[-1])
    notes = (line.change for line in store.story(job.id) if isinstance(line.change, Note))
    lives = lives_of([attempt], notes)[attempt.id]
    began = [life.up_at for life in lives.values() if life.up_at is not None]
    until = min((at for at in (attempt.stopping_at, attempt.ended_at) if at is not None), default=now)
    return Evidence(
        training=progress_of(steps.get(attempt.number, ())),
        gpus=list(_gpus(attempt, monitor, live, max(until - SPAN_SECONDS, min(began, default=until)), until)),
        uses=uses_of(uses.get(attempt.number, ())),
        ran_seconds=max(0.0, until - min(began, default=until)),
        quiet={replica: _quiet_seconds(life, until) for replica, life in lives.items() if life.is_quiet},
    )


def _quiet_seconds(life: Life, until: float) -> float:
    return max(0.0, until - life.quiet[-1][0])


def _gpus(attempt: Attempt, monitor: Monitor, live: LiveWorld, since: float, until: float) -> Iterator[GpuUse]:
    history = monitor.history
    if history is None or until <= since:
        return
    holders = live.made(holders_of)
    shown = {now.reading.device.uuid: now for now in monitor.gpus()}
    for place in attempt.placements:
        for uuid in place.devices:
            points = history.points(place.node, uuid, since, until, count=_POINTS)
            seen = shown.get(uuid)
            yield GpuUse(
                replica=f"{place.role}-{place.index}",
                node=place.node,
                uuid=uuid,
                product=seen.reading.device.product if seen is not None else "",
                is_shared=len(holders.get(uuid, ())) > 1,
                points=points,
                processes=len(seen.processes) if seen is not None and attempt.ended_at is None else None,
            )
