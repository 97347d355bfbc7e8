"""`stoker why`: why a job waits and when it will start, or how it ended."""

from __future__ import annotations

import click

from stoker.cli import session, show
from stoker.cli.outlook import explained


@click.command("why")
@session.job_argument
@session.project_option
@session.json_option
def command(job: str, project: str | None, as_json: bool) -> None:
    """Say why JOB waits, who holds what it needs, when it will likely start and what would start it sooner.

    Of a job that runs: when it will likely end. Of one that has ended: how. Estimates go by how long jobs have run here.
    """
    project = session.the_project(project)
    found = session.client().explain(project, job)
    if as_json:
        show.data(found)
        return
    for line in explained(found, job, project):
        say(line)


def say(text: str) -> None:
    """Lines in which words of the program may stand."""
    for line in text.split("\n"):
        show.say(show.safe(line))
