"""`stoker costs`: what jobs have cost, and what is left to spend."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show

DAY_SECONDS = 86400.0
_COLUMNS = {"project": "PROJECT", "user": "USER", "job": "JOB_ID", "queue": "QUEUE", "day": "DAY"}


@click.command("costs")
@click.option("--by", type=click.Choice(list(_COLUMNS)), default="project", show_default=True, help="What is a row.")
@click.option(
    "--since", metavar="TIME", help="From so long ago: 90m, 12h, 30d.  [default: the beginning of this month, UTC]"
)
@click.option("--project", metavar="ID", help="Only of this project.  [default: all]")
@session.json_option
def command(by: str, since: str | None, project: str | None, as_json: bool) -> None:
    """Show what jobs have cost: how long they held machines, at the prices of the pools and of the catalog.

    USD is what the machines cost that jobs held, on your own hardware what they would cost on Google Cloud; a `?` stands where no
    price is known of some. ORDERED is what was paid of it for machines that were ordered for them: that is what budgets count.
    Hours in which an ordered machine starts, or stands idle, are nobody's, and are not in it.
    """
    from stoker.simulate.request import span

    began = time.time() - span(since, "--since") if since else 0.0
    found = session.client().costs(began, project or "")
    if as_json:
        show.data(found)
        return
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for bill in found["bills"]:
        rows.setdefault(_key(bill, by), []).append(bill)
    if rows:
        headers = [_COLUMNS[by], "MACHINE_HOURS", "GPU_HOURS", "USD", "ORDERED"]
        show.table(headers, [[name, *_sums(bills)] for name, bills in rows.items()])
        if len(rows) > 1:
            total = _sums(found["bills"])
            show.note(
                f"together {total[0]} machine hours, {total[1]} GPU hours, {total[2]} USD, {total[3]} of it ordered"
            )
    else:
        show.note("no job has held machines " + (f"for the last {since}" if since else "this month"))
    for budget in found["budgets"]:
        show.note(_budget(budget))


def _key(bill: Mapping[str, Any], by: str) -> str:
    if by == "job":
        return f"{bill['project']}/{bill['job']}"
    return str(bill["owner" if by == "user" else by])


def _sums(bills: list[Mapping[str, Any]]) -> list[str]:
    known = sum(bill["usd"] or 0.0 for bill in bills)
    is_partly_unknown = any(bill["usd"] is None for bill in bills)
    return [
        f"{sum(bill['machine_hours'] for bill in bills):.2f}",
        f"{sum(bill['accelerator_hours'] for bill in bills):.2f}",
        f"{known:.2f}" + (" + ?" if is_partly_unknown else ""),
        f"{sum(bill['ordered_usd'] for bill in bills):.2f}",
    ]


def _budget(budget: Mapping[str, Any]) -> str:
    parts = []
    if budget["usd_per_month"] is not None:
        parts.append(f"{budget['spent_usd']:.2f} of {budget['usd_per_month']:.2f} USD this month")
    if budget["usd_per_hour"] is not None:
        parts.append(f"{budget['held_usd_per_hour']:.2f} of {budget['usd_per_hour']:.2f} USD an hour now")
    return f"{budget['project']}: {' · '.join(parts)}"
