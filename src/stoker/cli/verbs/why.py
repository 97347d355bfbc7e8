"""`stoker why`: why a job waits and when it will start, or how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.follow import where
from stoker.cli.outlook import duration, explained


@click.command("why")
@session.job_argument
@session.project_option
@session.json_option
def command(job: str, project: str | None, as_json: bool) -> None:
    """Say why JOB waits, who holds what it needs, when it will likely start and what would start it sooner.

    Of a job that runs: when it will likely end. Of one that has ended: how, what it cost, how it trained and where its files
    are. Estimates go by how long jobs have run here.
    """
    client, project = session.client(), session.the_project(project)
    found = client.explain(project, job)
    if as_json:
        show.data(found)
        return
    for line in explained(found, job, project):
        say(line)
    if found["state"] == "SUCCEEDED":
        took, training = client.metrics(project, job), client.steps(project, job, points=1)
        for line in (*done(took, training), *where(client.details(project, job))):
            say(line)


def done(took: Mapping[str, Any], training: Mapping[str, Any]) -> Iterator[str]:
    """What a job that has succeeded took, what it cost, and how it trained."""
    starts = took["attempts"] + took["restarts"]
    tries = "" if starts == 1 else f", in {starts} starts ({took['attempts']} attempts)"
    yield f"  ran      {duration(took['running_seconds'])} after {duration(took['queued_seconds'])} in the queue{tries}"
    if took["cost_usd"] is not None:
        usd = f"${took['cost_usd']:,.2f}" if took["cost_usd"] >= 0.01 else "less than a cent"
        yield f"  costs    {usd}, as Google Cloud sells it (prices of {took['price_as_of']})"
    elif took["cost_notes"]:
        yield f"  costs    not known: {'; '.join(took['cost_notes'])}"
    for replica in training["replicas"][:1]:
        values = ", ".join(
            f"{name} {value:.4g}" for name, value in replica["values"].items() if not isinstance(value, str)
        )
        speed = f" at {replica['steps_per_second']:.3g} a second" if replica["steps_per_second"] else ""
        yield f"  trained  {replica['step']} steps{speed}" + (f"; at the end {values}" if values else "")
    for finding in training["findings"]:
        yield f"  !        {finding['text']}: {finding['action']}"


def say(text: str) -> None:
    """Lines in which words of the program may stand."""
    for line in text.split("\n"):
        show.say(show.safe(line))
