"""`stoker keep`: let a job keep its GPUs for a while, idle or not."""

from __future__ import annotations

import time

import click

from stoker.cli import session, show
from stoker.core.errors import BadSpec, Violation
from stoker.core.job import KEEP

MOST_SECONDS = 7 * 86400.0


@click.command("keep")
@session.job_argument
@click.argument("time_text", metavar="TIME")
@session.project_option
def command(job: str, time_text: str, project: str | None) -> None:
    """Let JOB keep its GPUs for TIME (90m, 2h, 3d; 0: no longer), though nothing runs on them.

    It matters on sites that stop jobs whose GPUs are idle (the setting idle_stop_seconds).
    """
    from stoker.simulate.request import span

    seconds = 0.0 if time_text == "0" else span(time_text, "TIME")
    if seconds > MOST_SECONDS:
        raise BadSpec([Violation("TIME", f"{time_text} is longer than a week")], fix="ask again when it is over")
    client, project = session.client(), session.the_project(project)
    details = client.details(project, job)
    if details["ended_at"] is not None:
        show.note(f"{job} has ended: it holds nothing")
        return
    labels = {name: value for name, value in details["labels"].items() if name != KEEP}
    if seconds:
        labels[KEEP] = str(round(time.time() + seconds))
    client.relabel(project, job, labels)
    show.done(f"{job} may keep its GPUs for {show.duration(seconds)}" if seconds else f"{job} is kept no longer")
