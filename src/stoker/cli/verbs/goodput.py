"""`stoker goodput`: what became of the time for which machines were held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.outlook import duration

BY = ("project", "queue", "user", "job", "node", "accelerator")

_MEANS = {
    "productive": "steps that count",
    "input": "waiting for data",
    "communication": "waiting for other replicas, or exchanging with them",
    "checkpoint": "standing still for a checkpoint",
    "evaluation": "between steps: evaluating, and whatever else the program did",
    "starting": "environment, imports, the first step",
    "gang": "ready, waiting for others to start",
    "lost": "steps done again after a restart",
    "idle": "hung, or ended while others went on",
    "stopping": "after the last step",
    "unknown": "the program told nothing of steps",
}
_BAR = 30


@click.command("goodput")
@click.argument("job", required=False)
@click.option("--last", metavar="TIME", help="Of all jobs, over so long: 90m, 12h, 7d.  [default: 1d]")
@click.option("--by", type=click.Choice(BY), default="project", show_default=True, help="Of all jobs: what is a row.")
@click.option("--queue", metavar="NAME", help="Of all jobs: only of this queue.")
@session.project_option
@session.json_option
def command(job: str | None, last: str | None, by: str, queue: str | None, project: str | None, as_json: bool) -> None:
    """Show what became of every second for which JOB held its machines; without JOB, of all jobs together.

    Seconds are multiplied by accelerators, or are those of machines where a job has none. Goodput is the productive part.
    """
    client = session.client()
    if job:
        if last or queue:
            raise click.UsageError("--last and --queue are for all jobs together: leave JOB out")
        found = client.goodput(session.the_project(project), job)
        show.data(found) if as_json else _show_job(found)
        return
    from stoker.simulate.request import span

    since = time.time() - span(last or "1d", "--last")
    found = client.site_goodput(since=since, by=by, queue=queue or "", project=project or "")
    if as_json:
        show.data(found)
    elif found["rows"]:
        headers = [
            by.upper(),
            "JOBS",
            "HELD",
            "GOODPUT",
            "INPUT",
            "COMM",
            "SAVES",
            "LOST",
            "STARTING",
            "IDLE",
            "?",
            "USD",
        ]
        show.table(headers, [_row(row) for row in found["rows"]])
    else:
        show.note(f"no job has held machines in the last {last or '1d'}")


def _show_job(found: Mapping[str, Any]) -> None:
    held = found["held_seconds"]
    if not held:
        show.note("it has held no machines yet")
        return
    show.table(
        ["PHASE", "TIME", "SHARE", "", "WHAT IT IS"],
        [
            [phase, duration(seconds), _share(seconds / held), "█" * round(_BAR * seconds / held), means]
            for phase, means in _MEANS.items()
            for seconds in [found["seconds"][phase]]
            if seconds >= 0.0005 * held
        ],
    )
    unit = f"{found['weight']} time"
    parts = [f"goodput {_share(found['goodput'])} of {duration(held)} of {unit}"]
    if found["goodput"] is None:
        parts = [f"goodput is not known: {duration(held)} of {unit}, and the program told nothing of steps"]
    if found["usd"] is not None:
        parts.append(f"{found['usd']:.2f} USD")
    if found["fault_seconds"]:
        parts.append(f"{duration(found['fault_seconds'])} lost by the site's fault")
    show.note(", ".join(parts) + ("" if found["is_final"] else "; it goes on"))
    if not found["knows_lost"]:
        show.note("it goes on from checkpoints of its own: what was lost to restarts is not known")


def _row(row: Mapping[str, Any]) -> list[str]:
    held, seconds = row["held_seconds"], row["seconds"]
    shown = ("input", "communication", "checkpoint", "lost", "starting", "idle", "unknown")
    unit = "GPU" if row["weight"] == "accelerator" else "machine"
    return [
        row["name"],
        str(row["jobs"]),
        f"{held / 3600:.2f} {unit} h",
        _share(row["goodput"]),
        *(_share(seconds[phase] / held if held else None) for phase in shown),
        "" if row["usd"] is None else f"{row['usd']:.2f}",
    ]


def _share(part: float | None) -> str:
    return "?" if part is None else f"{100 * part:.1f} %"
