"""`stoker wait`: until a job has ended."""

from __future__ import annotations

import click

from stoker.cli import session
from stoker.cli.follow import CODES, follow


@click.command("wait")
@session.job_argument
@click.option(
    "--status-codes", is_flag=True, help="End with 0, 100 (failed) or 103 (cancelled), not with the job's own code."
)
@session.project_option
def command(job: str, status_codes: bool, project: str | None) -> int:
    """Wait until JOB has ended, and end with its result."""
    client, project = session.client(), session.the_project(project)
    result = follow(client, project, job, logs=False)
    if status_codes and result != 130:
        return CODES[client.details(project, job)["state"]]
    return result
