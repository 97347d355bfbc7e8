"""Sites with a present and a past, in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.core.changes import Open, Submit
from stoker.core.job import Job
from stoker.core.site import Site
from stoker.core.world import World, apply
from stoker.scheduling.history import History
from stoker.scheduling.rules import rules_of
from stoker.simulate.forecast import Budget
from stoker.simulate.future import Now, adopted
from stoker.simulate.run_times import Known
from tests.builders import a_job, an_attempt, nodes

AT = 1_000_000.0
AMPLE = Budget(work=1e9, seconds=1e9)
"""Nothing of it binds but the number of draws."""


def a_past(*seconds: float, gpus: int = 4, owner: str = "u", name: str = "old") -> History:
    """What jobs that have run so long have taught."""
    history = History()
    for number, held in enumerate(seconds):
        history.add(a_job(f"{name}_{number}", gpus=gpus, owner=owner), held)
    return history


def a_now(
    text: str,
    *,
    running: Mapping[str, tuple[Job, float]] | None = None,
    waiting: Sequence[Job] = (),
    history: History | None = None,
    site: Site | None = None,
    hold: bool = False,
) -> Now:
    """Nodes as `"n0:4"`, on each of some a job that runs for so many seconds by now, and who waits."""
    world = World(nodes={node.name: node for node in nodes(text)})
    for node, (job, ran) in (running or {}).items():
        apply(world, Submit(job=job))
        apply(world, Open(attempt=an_attempt(job, placed_at=AT - ran, node=node)))
    for job in waiting:
        apply(world, Submit(job=job))
    known = Known.of(history or History(), world.jobs.values())
    return Now(world=adopted(world, AT), rules=rules_of(site or Site()), known=known, at=AT, hold=hold)


def full(text: str = "n0:4 n1:4", *ran: float) -> dict[str, tuple[Job, float]]:
    """Every node held by a job of its own: run_0 on n0 and so on."""
    names = [part.partition(":")[0] for part in text.split()]
    return {
        name: (a_job(f"run_{n}", at=AT - seconds, gpus=4), seconds)
        for n, (name, seconds) in enumerate(zip(names, ran, strict=True))
    }
