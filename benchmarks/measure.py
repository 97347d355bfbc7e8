"""What a measurement is: samples, what they are compared with, what they may be, and the table of them all."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from stoker import __version__

_DIGITS = {"s": 3, "ms": 0, "MB": 0, "MB/s": 1, "/s": 0, "jobs/s": 2, "jobs": 0, "%": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    what: str
    unit: str = "s"  # s, ms, MB, MB/s, /s, jobs/s, jobs, %
    samples: Sequence[float] = ()  # none: `note` says why not
    budget: float | None = None
    moonshot: float | None = None
    more_is_better: bool = False
    peer: str = ""  # what the ratio is to, measured in the same run
    ratio: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """The middle of the samples, which a busy machine disturbs least."""
        return statistics.median(self.samples)

    @property
    def verdict(self) -> str:
        """OK or OVER; BEST when it reaches the moonshot, too."""
        if not self.samples or self.budget is None:
            return "-"
        if self._is_within(self.moonshot):
            return "BEST"
        return "OK" if self._is_within(self.budget) else "OVER"

    def _is_within(self, limit: float | None) -> bool:
        if limit is None:
            return False
        return self.median >= limit if self.more_is_better else self.median <= limit


@dataclass(frozen=True, slots=True)
class Spent:
    """What a child process has cost."""

    cpu_seconds: float  # user and system, its waited-for children included
    wall_seconds: float


def spend(command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> Spent:
    """Run a command to its end, silently. Raises RuntimeError if it fails."""
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        child = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {output.read().decode(errors='replace')[-2000:]}")
    return Spent(usage.ru_utime + usage.ru_stime, wall)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far, with that of the children which it has waited for."""
    return float(sum(psutil.Process(pid).cpu_times()[:4]))


def percentile(samples: Sequence[float], percent: float) -> float:
    """The sample that so many percent of all do not exceed."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * percent / 100))]


def ratio(samples: Sequence[float], peers: Sequence[float]) -> float | None:
    """Median to median; None if the peer was not measured."""
    return statistics.median(samples) / statistics.median(peers) if samples and peers else None


def shown(value: float, unit: str) -> str:
    """`0.071 s`, `4.2 ms`, `212/s`."""
    digits = _DIGITS[unit] if abs(value) >= 10 or unit not in ("ms", "MB", "%") else 1
    return f"{value:,.{digits}f}" + ("" if unit == "/s" else " ") + unit


def table(rows: Sequence[Row]) -> str:
    """WHAT, BUDGET with the moonshot in brackets, the median with the range, RATIO, VERDICT."""
    lines = [("WHAT", "BUDGET", "MEASURED", "RATIO", "VERDICT"), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows with every sample."""
    return [{**asdict(row), "verdict": row.verdict} for row in rows]


def machine() -> dict[str, Any]:
    """Where this was measured. The load before the start says how far wall times can be believed."""
    return {
        "stoker": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "temporary_files_on": _file_system(tempfile.gettempdir()),
    }


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    budget = measured = compared = "-"
    if row.budget is not None:
        budget = ("≥ " if row.more_is_better else "≤ ") + shown(row.budget, row.unit)
        if row.moonshot is not None:
            budget += f" ({shown(row.moonshot, row.unit)})"
    if row.samples:
        measured = shown(row.median, row.unit)
        if len(row.samples) > 1:
            low, high = (shown(f(row.samples), row.unit).removesuffix(row.unit).strip() for f in (min, max))
            measured += f"  {low}–{high}"
    if row.ratio is not None:
        compared = f"{row.ratio:.3g} × {row.peer}"
    return row.what, budget, measured if row.samples else row.note or "-", compared, row.verdict


def _file_system(folder: str) -> str:
    """The type of the file system that holds a folder: on `tmpfs`, a commit waits for no disk."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: -len(mount.mountpoint))
    real = os.path.realpath(folder) + "/"
    return next((m.fstype for m in mounts if real.startswith(m.mountpoint.rstrip("/") + "/")), "unknown")
