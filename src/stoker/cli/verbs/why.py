"""`stoker why`: why a job waits, or how it ended."""

from __future__ import annotations

import click

from stoker.cli import session, show


@click.command("why")
@click.argument("job")
@session.project_option
@session.json_option
def command(job: str, project: str | None, as_json: bool) -> None:
    """Say why JOB waits, or how it ended."""
    found = session.client().details(session.the_project(project), job)
    if as_json:
        keys = ("name", "state", "reason", "message", "attempts")
        show.data({key: found.get(key) for key in keys})
        return
    reason = found.get("reason")
    if reason:
        click.echo(f"{job} waits: {reason['text']}.")
        click.echo(f"  → {reason['action']}")
    elif found["state"] == "QUEUED":
        click.echo(f"{job} is queued and will be looked at in a moment.")
    else:
        click.echo(f"{job} is {show.state(found['state'])}." + (f" {found['message']}" if found["message"] else ""))
    for attempt in found["attempts"]:
        if attempt["cause"] and attempt["cause"] != "COMPLETED":
            first = attempt["detail"].splitlines()[0] if attempt["detail"] else ""
            click.echo(f"  attempt {attempt['number']}: {attempt['cause']} {first}".rstrip())
    if found["state"] == "FAILED":
        click.echo(f"  → see its output: stoker logs {job}")
