"""`stoker diagnose`: what is wrong with how a job trains, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.outlook import duration


@click.command("diagnose")
@session.job_argument
@session.project_option
@session.json_option
def command(job: str, project: str | None, as_json: bool) -> None:
    """Say what holds JOB up, how sure that is and what it rests on, and what to change.

    The last five minutes of its training count, or what it trained last. Nothing is concluded from what is not known.
    """
    found = session.client().findings(session.the_project(project), job)
    if as_json:
        show.data(found)
        return
    for number, finding in enumerate(found["findings"]):
        if number:
            show.say("")
        _show(finding)
    if not found["findings"] and found["says_enough"]:
        show.done("nothing is known to be wrong")
    if not found["says_enough"]:
        show.note(
            "nothing can be said yet: it takes some seconds of steps after the first one; Keras' fit and PyTorch's optimizers"
            " tell of theirs by themselves, in another loop call stoker.step() and stoker.reading(data)"
        )
    elif found["steps"]:
        show.note(_rests_on(found))


def _show(finding: Mapping[str, Any]) -> None:
    line = f"{finding['code']}: {finding['text']}"
    show.done(line) if finding["is_good"] else show.warn(line)
    for fact in finding["evidence"]:
        show.say(f"    {fact}")
    show.say(f"  \u2192 {finding['action']}")
    if finding["change"]:
        show.say(f"    {finding['change']}")
    show.say(f"  confidence {finding['confidence']}, from {finding['source']}")


def _rests_on(found: Mapping[str, Any]) -> str:
    gpus = f", and samples of {found['gpus']} GPU{'s' if found['gpus'] > 1 else ''}" if found["gpus"] else ""
    return f"looked at {found['steps']} steps in {duration(found['seconds'])}{gpus}"
