"""`stoker gpus`: the GPUs of all machines, as they are sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import figures, session, show

Row = Mapping[str, Any]


@click.command("gpus")
@click.option("--node", help="Only those of this node.")
@session.json_option
def command(node: str | None, as_json: bool) -> None:
    """List the GPUs of all machines: how busy they are, their memory, power and temperature, and who holds them.

    BUSY is the part of the time in which anything ran on it, SM and TENSOR the parts of its processors that did (on cards that
    tell); docs/monitoring.md says what to make of them.
    """
    rows = [row for row in session.client().gpus() if node in (None, row["node"])]
    if as_json:
        show.data({"gpus": rows})
        return
    if not rows:
        show.note("no GPU is seen on any machine that is sampled; stoker nodes list shows the machines")
        return
    headers = ["NODE", "GPU", "PRODUCT", "BUSY", "SM", "TENSOR", "MEMORY", "POWER", "TEMP", "JOBS"]
    show.table(headers, [_line(row) for row in rows])
    for row in rows:
        if row["fault"]:
            show.warn(f"GPU {row['index']} of {row['node']}: {row['fault']}: {row['problem']}")


def _line(row: Row) -> list[object]:
    values = row["values"]
    return [
        row["node"],
        f"{row['index']}{'/' + row['mig_profile'] if row['mig_profile'] else ''}",
        row["product"],
        row["fault"] or figures.percent(values.get("utilization_percent")),
        figures.share(values.get("sm_active_ratio")),
        figures.share(values.get("tensor_active_ratio")),
        figures.of(values.get("memory_used_bytes"), values.get("memory_total_bytes"), 1 << 30, "GiB"),
        figures.of(values.get("power_watts"), values.get("power_limit_watts"), 1, "W"),
        figures.celsius(values.get("temperature_celsius")),
        ", ".join(row["jobs"]),
    ]
