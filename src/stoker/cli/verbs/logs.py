"""`stoker logs`: what a job printed."""

from __future__ import annotations

import json

import click

from stoker.cli import session, show
from stoker.cli.follow import Screen, follow


@click.command("logs")
@click.argument("job")
@click.option(
    "-f", "--follow", "follow_to_end", is_flag=True, help="Go on until the job has ended; ends with its result."
)
@click.option("--replica", help="Only this replica, such as worker-0.")
@session.project_option
@session.json_option
def command(job: str, follow_to_end: bool, replica: str | None, project: str | None, as_json: bool) -> int:
    """Show what JOB printed, all replicas in the order in which it arrived."""
    client, project = session.client(), session.the_project(project)
    if follow_to_end and not as_json and not replica:
        return follow(client, project, job)
    screen, status, found = Screen(job, quiet=True), 0, False
    for event in client.stream(project, job, follow=follow_to_end):
        if event["kind"] == "state":
            screen.show(event)
        if event["kind"] == "end" and follow_to_end:
            status = int(event["exit_code"])
        if event["kind"] == "log" and replica in (None, event["replica"]):
            found = True
            click.echo(json.dumps(event)) if as_json else screen.line(event)
    if not found and not as_json:
        show.note(f"{job} has printed nothing" + (f" on {replica}" if replica else "") + " so far")
    return status
