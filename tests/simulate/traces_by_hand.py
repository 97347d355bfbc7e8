"""Tiny traces, in one line each, whose schedules can be worked out by hand."""

from __future__ import annotations

from typing import Any

from stoker.core.site import Backfill, Preemption, Site, Victims
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.run import Model, Replay, replay
from stoker.simulate.trace import Trace, TraceJob

EAGER = Preemption(quantum_seconds=0.0, victims=Victims.ANY)
STRICT = Site(policy="fifo", backfill=Backfill.STRICT)

BLOCKED = "a 0 1000 4, b 10 500 8, c 20 100 4"
"""On one node of eight: b waits for a, and c fits beside a."""


def a_trace(text: str, **fields: Any) -> Trace:
    """`a 0 1000 4`: job a, submitted at 0, runs for 1000 s on 4 GPUs; `/5` of priority 5, `@x` in queue x."""
    jobs = []
    for part in text.split(","):
        words = part.split()
        more = {word[0]: word[1:] for word in words[4:]}
        jobs.append(
            TraceJob(
                name=words[0],
                submitted_at=float(words[1]),
                run_seconds=float(words[2]),
                gpus_milli=round(1000 * float(words[3])),
                priority=int(more.get("/", "0")),
                queue=more.get("@", ""),
            )
        )
    return Trace(**{"name": "by-hand", "jobs": tuple(jobs), "source": "by-hand.csv", **fields})


def ends(text: str, nodes: str = "1x8xV100", site: Site = STRICT, **model: Any) -> dict[str, tuple[float, float]]:
    """When each job of a trace first starts and when it ends."""
    found = run(text, nodes, site, **model)
    return {done.name: (done.first_started_at, done.ended_at) for done in found.runs}


def run(text: str, nodes: str = "1x8xV100", site: Site = STRICT, **model: Any) -> Replay:
    """Replay a trace."""
    return replay(a_trace(text), nodes_of_text(nodes), site, model=Model(**model))
