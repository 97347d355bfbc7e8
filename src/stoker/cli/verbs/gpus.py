"""`stoker gpus`: the GPUs of all machines, as they are sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import session, show

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
        row["fault"] or _percent(values.get("utilization_percent")),
        _percent(_hundred(values.get("sm_active_ratio"))),
        _percent(_hundred(values.get("tensor_active_ratio"))),
        _of(values.get("memory_used_bytes"), values.get("memory_total_bytes"), 1 << 30, "GiB"),
        _of(values.get("power_watts"), values.get("power_limit_watts"), 1, "W"),
        "" if "temperature_celsius" not in values else f"{values['temperature_celsius']:.0f} °C",
        ", ".join(row["jobs"]),
    ]


def _hundred(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _of(value: float | None, whole: float | None, unit: float, name: str) -> str:
    if value is None:
        return ""
    return f"{value / unit:.3g} {name}" if whole is None else f"{value / unit:.3g}/{whole / unit:.3g} {name}"
