"""One trace under several policies, on the same nodes with the same failures: what came of each, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import job_id
from stoker.core.node import Node
from stoker.core.site import Site

from .metrics import Metrics, Run, measure
from .run import PROJECT, Model, Replay, replay
from .timeline import Timeline, timeline
from .trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the trace under one policy."""

    site: Site
    runs: Sequence[Run]
    metrics: Metrics
    timeline: Timeline
    refused: int  # jobs that no node could ever hold
    unfinished: int


def study(
    trace: Trace,
    nodes: Sequence[Node],
    sites: Sequence[Site],
    model: Model,
    *,
    progress: Callable[[Site, int], None] = lambda site, submitted: None,
) -> list[Outcome]:
    """Replay the trace under each of these rules, one after the other."""
    gpus = float(sum(len(node.devices) for node in nodes))
    outcomes: list[Outcome] = []
    for site in sites:

        def tell(submitted: int, site: Site = site) -> None:
            progress(site, submitted)

        outcomes.append(_outcome(replay(trace, nodes, site, model=model, progress=tell), gpus, outcomes))
    return outcomes


def _outcome(found: Replay, gpus: float, others: Sequence[Outcome]) -> Outcome:
    """Measured; the limits of the same jobs are not worked out twice."""
    unfinished = len(found.unfinished)
    if not found.runs:
        problem = f"none of {unfinished:,} jobs ended: they wait for ever, or were given up after they had lost their machines"
        raise BadSpec([Violation(found.site.policy, problem)], fix="look at the quotas, or let nodes fail less often")
    limits = next((other.metrics.bounds for other in others if not other.unfinished), None) if not unfinished else None
    metrics = measure(found.runs, gpus, limits=limits, unfinished=unfinished)
    queue_of = {job_id(PROJECT, job.name): job.queue for job in found.trace.jobs}
    return Outcome(
        site=found.site,
        runs=found.runs,
        metrics=metrics,
        timeline=timeline(found.story, queue_of, gpus, metrics.all.makespan_seconds),
        refused=len(found.refused),
        unfinished=unfinished,
    )
