"""`stoker why`: why a job waits, or how it ended."""

from __future__ import annotations

import click

from stoker.cli import session, show


@click.command("why")
@session.job_argument
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
        say(f"{job} waits: {reason['text']}.")
        say(f"  → {reason['action']}")
    elif found["state"] == "QUEUED":
        say(f"{job} is queued and will be looked at in a moment.")
    else:
        say(f"{job} is {show.state(found['state'])}." + (f" {found['message']}" if found["message"] else ""))
    for attempt in found["attempts"]:
        if attempt["cause"] and attempt["cause"] != "COMPLETED":
            first = attempt["detail"].splitlines()[0] if attempt["detail"] else ""
            say(f"  attempt {attempt['number']}: {attempt['cause']} {first}".rstrip())
    if found["state"] == "FAILED":
        say(f"  → see its output: stoker logs {job}")


def say(text: str) -> None:
    """Lines in which words of the program may stand."""
    for line in text.split("\n"):
        show.say(show.safe(line))
