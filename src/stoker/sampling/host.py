"""What a machine does beside its GPUs: processors, memory, disks, network. Source: psutil."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMetric:
    """One number of a machine."""

    name: str  # with its unit
    help: str
    is_counter: bool = False


HOST_METRICS = (
    HostMetric(name="cpu_percent", help="Use of all processors together."),
    HostMetric(name="load", help="Processes that run or wait for a processor or a disk, over a minute."),
    HostMetric(name="host_memory_used_bytes", help="Memory that is not available to a new program."),
    HostMetric(name="host_memory_total_bytes", help="Memory in all."),
    HostMetric(name="disk_read_bytes", help="Read from all disks.", is_counter=True),
    HostMetric(name="disk_written_bytes", help="Written to all disks.", is_counter=True),
    HostMetric(name="network_sent_bytes", help="Sent over all networks but loopback.", is_counter=True),
    HostMetric(name="network_received_bytes", help="Received over all networks but loopback.", is_counter=True),
)
"""In the order in which they are shown and kept."""


class HostReader:
    """This machine, to be read again and again."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # the first answer is of no time at all

    def read(self) -> Mapping[str, float]:
        """The machine now; use of processors since the last question. What it does not tell is left out. Never raises."""
        found: dict[str, float] = {}
        for part in (_processors, _memory, _disks, _network):
            try:
                found |= part()
            except (OSError, RuntimeError, AttributeError):  # a container may hide any of them
                continue
        return found


def _processors() -> dict[str, float]:
    return {"cpu_percent": psutil.cpu_percent(), "load": psutil.getloadavg()[0]}


def _memory() -> dict[str, float]:
    found = psutil.virtual_memory()
    return {
        "host_memory_used_bytes": float(found.total - found.available),
        "host_memory_total_bytes": float(found.total),
    }


def _disks() -> dict[str, float]:
    found = psutil.disk_io_counters()
    if found is None:  # a machine without disks
        return {}
    return {"disk_read_bytes": float(found.read_bytes), "disk_written_bytes": float(found.write_bytes)}


def _network() -> dict[str, float]:
    others = [found for name, found in psutil.net_io_counters(pernic=True).items() if not name.startswith("lo")]
    return {
        "network_sent_bytes": float(sum(found.bytes_sent for found in others)),
        "network_received_bytes": float(sum(found.bytes_recv for found in others)),
    }
