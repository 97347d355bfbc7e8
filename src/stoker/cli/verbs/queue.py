"""`stoker queue`: who waits, in order, and how the queues of the site stand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show


@click.command("queue")
@click.option("--project", help="Only jobs of this project.  [default: all]")
@click.option(
    "--limit", type=click.IntRange(0, 1000), default=50, show_default=True, help="At most so many jobs, the next first."
)
@session.json_option
def command(project: str | None, limit: int, as_json: bool) -> None:
    """Show who waits, in the order in which they are looked at, and how the queues stand.

    SHARE is the greatest part of any resource of the site that a queue holds; a full one holds all of its own quota, or more.
    Who is in a queue that is not full goes first, then who has the smaller share by weight, then what the policy goes by: both
    are in KEY.
    """
    found = session.client().queue(project or "", limit)
    if as_json:
        show.data(found)
        return
    show.table(["QUEUE", "WEIGHT", "COHORT", "SHARE", "RUNNING", "WAITING", "HELD"], list(map(_queue, found["queues"])))
    click.echo()
    if found["waiting"]:
        jobs = [_job(job) for job in found["waiting"]]
        show.table(["POSITION", "JOB_ID", "QUEUE", "USER", "WANTS", "WAITS", "KEY", "REASON"], jobs)
    else:
        show.note("nobody waits" + (f" in project {project}" if project else ""))
    if found["more"]:
        show.note(f"{found['more']} more wait; --limit shows more of them")
    show.note(
        f"order: {found['policy']}. {found['order']}; shares by {found['share_by']}; backfill {found['backfill']}"
    )


def _queue(queue: Mapping[str, Any]) -> list[object]:
    share = f"{100 * queue['share']:.0f} %" + (" (full)" if queue["full"] else "")
    held = ", ".join(map(_holding, queue["resources"]))
    return [queue["name"], queue["weight"], queue["cohort"], share, queue["running"], queue["waiting"], held]


def _holding(one: Mapping[str, Any]) -> str:
    """`NVIDIA_TESLA_T4 20/16 (4 borrowed)`."""
    quota = "" if one["quota"] is None else f"/{one['quota']:g}"
    borrowed = f" ({one['borrowed']:g} borrowed)" if one["borrowed"] else ""
    return f"{one['resource']} {one['held']:g}{quota}{borrowed}"


def _job(job: Mapping[str, Any]) -> list[object]:
    name = job["name"] if job["project"] == session.the_project(None) else f"{job['project']}/{job['name']}"
    reason = f"{job['reason']['code']}: {job['reason']['text']}" if job["reason"] else ""
    return [
        job["position"],
        name,
        job["queue"] + (" (preemptible)" if job["preemptible"] else ""),
        job["owner"],
        job["wants"],
        show.duration(time.time() - job["since"]),
        ", ".join(filter(None, [f"share {100 * job['share']:.0f} %", job["key"]])),
        reason,
    ]
