"""`stoker logs`: what a job printed."""

from __future__ import annotations

import json

import click

from stoker.cli import session, show
from stoker.cli.follow import Screen, follow, replica_named


@click.command("logs")
@session.job_argument
@click.option(
    "-f", "--follow", "follow_to_end", is_flag=True, help="Go on until the job has ended; ends with its result."
)
@click.option("--replica", help="Only this replica, such as worker-0.")
@session.project_option
@session.json_option
def command(job: str, follow_to_end: bool, replica: str | None, project: str | None, as_json: bool) -> int:
    """Show what JOB printed, all replicas in the order in which it arrived."""
    client, project = session.client(), session.the_project(project)
    only = replica_named(client.details(project, job), replica) if replica else ""
    if follow_to_end and not as_json:
        return follow(client, project, job, replica=only)
    screen, status, found = Screen(job, quiet=True, replica=only), 0, False
    for event in client.stream(project, job, follow=follow_to_end):
        if event["kind"] == "end" and follow_to_end:
            status = int(event["exit_code"])
        if event["kind"] == "log" and only in ("", event["replica"]):
            found = True
            click.echo(json.dumps(event)) if as_json else screen.line(event)
        elif not as_json:
            screen.show(event)
    if not found and not as_json:
        show.note(f"{job} has printed nothing" + (f" on {only}" if only else "") + " so far")
    return status
