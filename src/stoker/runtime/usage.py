"""What a replica's processes use: processors, memory and disks, told now and then as lines of a stream of their own.

    {"t": time, "seconds": 10.0, "cpus": 3.2, "of_cpus": 8, "memory_bytes": 2147483648, "read_bytes_per_second": 1e6,
     "written_bytes_per_second": 0.0, "processes": 9}

`cpus`: processors in use over these `seconds`, of the `of_cpus` on which it may run. Source: proc(5) of Linux; nothing is told
elsewhere.
"""

from __future__ import annotations

import json
import os
import time
from typing import Callable, Iterable, NamedTuple, Optional

from .lines import Log
from .processes import descendants

STREAM = "usage"

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 60.0
_SHARE = 1 / 60  # of the time so far: the longer it runs, the less often it is told

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Used(NamedTuple):
    """What processes use at a moment; times and bytes count from their start, with those of children that have ended."""

    cpu_seconds: float
    memory_bytes: int  # what is shared by several counts once
    read_bytes: int
    written_bytes: int
    processes: int


class Usage:
    """What the processes below this one use."""

    def __init__(
        self,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        used: Optional[Callable[[], Used]] = None,
    ) -> None:
        """`used`: another way to find it, for tests."""
        self._log = log
        self._clock = clock
        self._wall = wall
        self._used = used or (lambda: used_by(process.pid for process in descendants()))
        self._began_at = self._at = clock()
        self._last: Optional[Used] = None
        self._due = self._began_at

    def pass_on(self) -> None:
        """Tell of it, if it is time. Costs next to nothing if not."""
        now = self._clock()
        if now < self._due or not os.path.isdir("/proc/self"):
            return
        self._due = now + max(SHORTEST_SECONDS, min(LONGEST_SECONDS, (now - self._began_at) * _SHARE))
        found, last, seconds = self._used(), self._last, now - self._at
        self._last, self._at = found, now
        if last is None or seconds <= 0 or not found.processes:
            return
        told = {
            "t": round(self._wall(), 3),
            "seconds": round(seconds, 3),
            "cpus": round(_speed(last.cpu_seconds, found.cpu_seconds, seconds), 3),
            "of_cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": found.memory_bytes,
            "read_bytes_per_second": round(_speed(last.read_bytes, found.read_bytes, seconds)),
            "written_bytes_per_second": round(_speed(last.written_bytes, found.written_bytes, seconds)),
            "processes": found.processes,
        }
        self._log.write_all(STREAM, [json.dumps(told)])


def _speed(before: float, after: float, seconds: float) -> float:
    """What was counted for processes that have ended meanwhile, and not with who waited for them, is no speed."""
    return max(0.0, after - before) / seconds


def used_by(pids: Iterable[int]) -> Used:
    """What these processes use, and what those below this one used that it has waited for."""
    ours = os.times()
    cpu, private, shared, read, written, count = ours.children_user + ours.children_system, 0, 0, 0, 0, 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                pages = file.read().split()
        except OSError:  # it has ended
            continue
        count += 1
        cpu += sum(map(int, fields[11:15])) / _TICKS  # its own, and of its children that have ended
        private += (int(pages[1]) - int(pages[2])) * _PAGE_BYTES
        shared = max(shared, int(pages[2]) * _PAGE_BYTES)
        from_disk, to_disk = _disk_bytes(pid)
        read, written = read + from_disk, written + to_disk
    return Used(cpu, private + shared, read, written, count)


def _disk_bytes(pid: int) -> "tuple[int, int]":
    """Bytes that a process has had read from a disk and written to one; 0 where that is not for us to know."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            told = dict(line.split(": ") for line in file.read().splitlines())
        return int(told["read_bytes"]), int(told["write_bytes"])
    except (OSError, ValueError, KeyError):
        return 0, 0
