"""A node in full: its fields, what its GPUs show now, who uses them, and what its machine showed in the last hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from stoker.cli import figures, show
from stoker.cli.sparkline import sparkline
from stoker.core.errors import NotFound

if TYPE_CHECKING:
    from stoker.client.client import Client

Row = Mapping[str, Any]

_HOUR_SECONDS = 3600.0
_POINTS = 120
_WIDTH = 30
_MOST_PROCESSES = 40
_MACHINE: Mapping[str, str] = {
    "cpu_percent": "processors",
    "load": "load",
    "host_memory_used_bytes": "memory",
    "disk_read_bytes_per_second": "disks, read",
    "disk_written_bytes_per_second": "disks, written",
    "network_sent_bytes_per_second": "network, sent",
    "network_received_bytes_per_second": "network, received",
}


def details_of(client: Client, name: str) -> dict[str, Any]:
    """The node as the server tells it, with its GPUs as they are now, and the samples of the last hour."""
    node = client.node(name)
    gpus = [row for row in client.gpus() if row["node"] == node["name"]]
    return {**node, "gpus": gpus, "samples": _samples(client, node["name"])}


def show_details(node: Row) -> None:
    """GPUs, processes, the machine, failures: as far as there are any."""
    bars = {row["source"]: _series(row, "utilization_percent", "mean") for row in node["samples"]}
    if node["gpus"]:
        show.say("")
        headers = ["GPU", "PRODUCT", "BUSY", "SM", "MEMORY", "POWER", "TEMP", "JOBS", "LAST HOUR"]
        show.table(headers, [_gpu(row, bars.get(row["uuid"], ())) for row in node["gpus"]])
    processes = list(_processes(node["gpus"]))
    if processes:
        show.say("")
        show.table(["PROCESS", "GPU", "MEMORY", "SM"], processes[:_MOST_PROCESSES])
        if len(processes) > _MOST_PROCESSES:
            show.note(f"  and {len(processes) - _MOST_PROCESSES} processes more: --json tells of all")
    machine = list(_machine(next((row for row in node["samples"] if not row["source"]), None)))
    if machine:
        show.say("")
        show.table(["MACHINE", "NOW", "MEAN", "MOST", "LAST HOUR"], machine)
    for row in node["gpus"]:
        if row["fault"]:
            show.warn(f"GPU {row['index']}: {row['fault']}: {row['problem']}")
    for fault in node["faults"]:
        show.note(f"{show.ago(fault['at'])}: {fault['job']}: {fault['what']}")


def _samples(client: Client, name: str) -> list[dict[str, Any]]:
    """None of a node that is gone, nor of a site that samples nothing."""
    wanted = ",".join([*_MACHINE, "host_memory_total_bytes", "utilization_percent"])
    try:
        found = client.node_samples(name, metrics=wanted, since=-_HOUR_SECONDS, points=_POINTS)["samples"]
    except NotFound:
        return []
    return [row for row in found if any(value is not None for one in row["series"] for value in one["mean"])]


def _gpu(row: Row, bars: Sequence[float | None]) -> list[object]:
    values = row["values"]
    return [
        f"{row['index']}{'/' + row['mig_profile'] if row['mig_profile'] else ''}",
        row["product"],
        row["fault"] or figures.percent(values.get("utilization_percent")),
        figures.share(values.get("sm_active_ratio")),
        figures.of(values.get("memory_used_bytes"), values.get("memory_total_bytes"), 1 << 30, "GiB"),
        figures.of(values.get("power_watts"), values.get("power_limit_watts"), 1, "W"),
        figures.celsius(values.get("temperature_celsius")),
        ", ".join(row["jobs"]),
        _bars(bars, most=100.0),
    ]


def _processes(gpus: Sequence[Row]) -> Iterator[list[object]]:
    for row in gpus:
        for found in row["processes"]:
            memory = figures.of(found["memory_bytes"], None, 1 << 30, "GiB")
            yield [str(found["pid"]), row["index"], memory, figures.percent(found["sm_percent"])]


def _machine(row: Row | None) -> Iterator[list[object]]:
    """A line a number of the machine."""
    if row is None:
        return
    whole = next((value for value in reversed(_series(row, "host_memory_total_bytes", "mean")) if value), None)
    for name, words in _MACHINE.items():
        means = _series(row, name, "mean")
        known = [value for value in means if value is not None]
        if not known:
            continue
        most = max(value for value in _series(row, name, "greatest") if value is not None)
        full = 100.0 if name == "cpu_percent" else whole if name == "host_memory_used_bytes" else None
        yield [
            words,
            *(_figure(name, value, whole) for value in (known[-1], fmean(known), most)),
            _bars(means, most=full or max(most, 1.0)),
        ]


def _figure(name: str, value: float, whole: float | None) -> str:
    if name == "cpu_percent":
        return figures.percent(value)
    if name == "load":
        return f"{value:.1f}"
    if name == "host_memory_used_bytes":
        return figures.of(value, whole, 1 << 30, "GiB")
    return figures.speed(value)


def _series(row: Row, name: str, figure: str) -> Sequence[float | None]:
    return next((found[figure] for found in row["series"] if found["name"] == name), ())


def _bars(values: Sequence[float | None], *, most: float | None) -> str:
    return sparkline(values, _WIDTH, from_zero=True, most=most)
