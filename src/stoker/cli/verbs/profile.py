"""`stoker profile`: what a job's processes do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show

_PATIENCE_SECONDS = 45.0
_LOOK_SECONDS = 0.3
_MOST_HOT = 10


@click.command("profile")
@session.job_argument
@click.option(
    "--seconds", type=click.FloatRange(0, 60), default=5.0, show_default=True, help="How long; 0: stacks alone."
)
@click.option("--replica", metavar="NAME", help="Show only this one, such as worker-0.")
@session.project_option
@session.json_option
def command(job: str, seconds: float, replica: str | None, project: str | None, as_json: bool) -> int:
    """Show what the processes of JOB do now, and in which lines of the program their time goes. The program goes on meanwhile.

    PyTorch and Keras programs write a trace of these seconds, too: for TensorBoard, or for ui.perfetto.dev.
    """
    client, project = session.client(), session.the_project(project)
    asked = client.ask_for_profile(project, job, seconds)
    if replica and replica not in asked["replicas"]:
        raise click.UsageError(f"{job} runs no {replica}; there are {', '.join(asked['replicas'])}")
    wanted = {replica} if replica else set(asked["replicas"])
    show.progress(f"looks at {', '.join(sorted(wanted)[:5])}{' …' if len(wanted) > 5 else ''} for {seconds:g} s")
    until, told = 0.0, None
    while True:
        found = client.profile(project, job, asked["id"])
        if found != told:  # a machine that is busy tells of one process after the other
            until, told = time.monotonic() + seconds + _PATIENCE_SECONDS, found
        over = {one["replica"] for one in found["replicas"] if one["is_over"]}
        if wanted <= over or time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    shown = [one for one in found["replicas"] if one["replica"] in wanted]
    if as_json:
        show.data({**found, "replicas": shown})
    else:
        for one in shown:
            _show(one)
    silent = sorted(wanted - over)
    if silent:
        show.warn(f"{', '.join(silent)} did not answer in time: has it ended?")
    return 1 if silent else 0


def _show(found: Mapping[str, Any]) -> None:
    for process in found["processes"]:
        show.say(show.safe(f"{found['replica']}  process {process['process']}  {process['command']}"))
        if process["samples"]:
            show.say(f"  where its time goes ({process['samples']} looks)")
            for hot in process["hot_lines"][:_MOST_HOT]:
                share = 100 * hot["samples"] / process["samples"]
                show.say(show.safe(f"    {share:3.0f} %  {hot['line']}"))
        show.say("  now")
        for line in process["stack"]:
            show.say(show.safe(f"    {line}"))
    if not found["has_spy"]:
        show.warn(f"py-spy is not installed beside {found['replica']}, so its stacks are the kernel's")
    if found["trace"]:
        show.done(f"trace of {found['replica']}: {found['trace']}")
    elif found["trace_error"]:
        show.warn(f"no trace of {found['replica']}: {found['trace_error']}")
