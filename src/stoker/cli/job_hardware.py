"""What the GPUs of a job did while it held them, from what was sampled: beside its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from stoker.cli import figures, show
from stoker.cli.sparkline import sparkline
from stoker.core.errors import NotFound

if TYPE_CHECKING:
    from stoker.client.client import Client

Row = Mapping[str, Any]

_METRICS = (
    "utilization_percent",
    "sm_active_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
)
_WIDTH = 30
_MOST_ROWS = 64
_UUID_LETTERS = 12


def hardware_of(client: Client, project: str, job: str, attempt: int, points: int) -> list[dict[str, Any]]:
    """A row a GPU that the job held; none where nothing was sampled, or it has had no place yet."""
    try:
        found = client.job_samples(project, job, attempt=attempt, metrics=",".join(_METRICS), points=points)
    except NotFound:
        return []
    rows = [_summary(row) for row in found["samples"] if row["source"]]
    return [row for row in rows if any(row[name] is not None for name in ("utilization_percent", "power_watts"))]


def show_hardware(rows: Sequence[Row]) -> None:
    """A table of them, if there are any."""
    if not rows:
        return
    show.say("")
    headers = ["REPLICA", "GPU", "BUSY", "SM", "MOST_MEMORY", "POWER", "HOTTEST", "BUSY SO FAR"]
    show.table(headers, [_line(row) for row in rows[:_MOST_ROWS]])
    if len(rows) > _MOST_ROWS:
        show.note(f"  and {len(rows) - _MOST_ROWS} GPUs more: --json tells of all")


def _summary(row: Row) -> dict[str, Any]:
    """Of one GPU: means over the time of the job, and the most of what has a limit."""
    series = {found["name"]: found for found in row["series"]}
    return {
        "replica": row["replica"],
        "node": row["node"],
        "gpu": row["source"],
        "utilization_percent": _mean(series, "utilization_percent"),
        "sm_active_ratio": _mean(series, "sm_active_ratio"),
        "most_memory_used_bytes": _most(series, "memory_used_bytes"),
        "memory_total_bytes": _most(series, "memory_total_bytes"),
        "power_watts": _mean(series, "power_watts"),
        "power_limit_watts": _most(series, "power_limit_watts"),
        "highest_temperature_celsius": _most(series, "temperature_celsius"),
        "start": row["start"],
        "seconds": row["seconds"],
        "utilization_percent_series": series.get("utilization_percent", {}).get("mean", []),
    }


def _line(row: Row) -> list[object]:
    return [
        row["replica"],
        row["gpu"][:_UUID_LETTERS],
        figures.percent(row["utilization_percent"]),
        figures.share(row["sm_active_ratio"]),
        figures.of(row["most_memory_used_bytes"], row["memory_total_bytes"], 1 << 30, "GiB"),
        figures.of(row["power_watts"], row["power_limit_watts"], 1, "W"),
        figures.celsius(row["highest_temperature_celsius"]),
        sparkline(row["utilization_percent_series"], _WIDTH, from_zero=True, most=100.0),
    ]


def _mean(series: Mapping[str, Row], name: str) -> float | None:
    known = list(_known(series, name, "mean"))
    return fmean(known) if known else None


def _most(series: Mapping[str, Row], name: str) -> float | None:
    return max(_known(series, name, "greatest"), default=None)


def _known(series: Mapping[str, Row], name: str, figure: str) -> Iterator[float]:
    values: Iterable[float | None] = series[name][figure] if name in series else ()
    return (value for value in values if value is not None)
