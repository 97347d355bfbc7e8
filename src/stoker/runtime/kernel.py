"""What the kernel tells of a program's end: kills for memory, and the errors of GPUs. Empty where it may not be read."""

from __future__ import annotations

import os
import re
import time
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set

_MOST_RECORDS = 20_000
_NO_LIMIT_BYTES = 1 << 60  # version 1 says more than there could be
_OOM_FILES = ("memory.events.local", "memory.events", "memory.oom_control")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\)")
_KILLED = re.compile(r"Killed process (\d+)")
_GPUS = "/proc/driver/nvidia/gpus"


class Kernel:
    """The kernel's state when a program starts; asked again when it has failed."""

    def __init__(self, read_log: "Optional[Callable[[float], Iterable[str]]]" = None, gpus: str = _GPUS) -> None:
        """`read_log`: its messages since a moment. `gpus`: the driver's folder. For tests."""
        self._read_log = read_log or _log_since
        self._gpus = gpus
        self._started = time.monotonic()
        self._kills = _kills_of_our_group()

    def evidence(self, pid: int, devices: str, *, was_killed: bool) -> List[str]:
        """What it has told since. `devices`: as CUDA_VISIBLE_DEVICES; the errors of others are not ours."""
        addresses = _addresses(devices, self._gpus)
        found = [line for line in self._read_log(self._started) if _is_ours(line, pid, addresses)]
        kills = _kills_of_our_group()
        if was_killed and kills is not None and self._kills is not None and kills > self._kills:
            counted = f"the kernel counted {kills - self._kills} oom_kill of its control group while it ran"
            found.insert(0, counted + _limit_of_our_group())  # the limit says more than the kernel's own line
        return found


def _is_ours(line: str, pid: int, addresses: Optional[Set[str]]) -> bool:
    killed, xid = _KILLED.search(line), _XID.search(line)
    if killed is not None:
        return int(killed[1]) == pid
    return xid is not None and addresses is not None and (not addresses or _address(xid[1]) in addresses)


def _addresses(devices: str, gpus: str) -> Optional[Set[str]]:
    """Where the program's GPUs are on the bus. None: it has none; empty: that is not told."""
    names = [name for name in devices.split(",") if name]
    if not names:
        return None
    found: Set[str] = set()
    try:
        for folder in os.listdir(gpus):
            with open(os.path.join(gpus, folder, "information"), encoding="utf-8", errors="replace") as file:
                told = dict(line.strip().partition(":")[::2] for line in file)
            own = {told.get("GPU UUID", "").strip(), told.get("Device Minor", "").strip()}
            if own & set(names):
                found.add(_address(folder))
    except OSError:
        return set()
    return found


def _address(text: str) -> str:
    """A place on the bus in one spelling: the kernel's log leaves the function out."""
    return text.lower().partition(".")[0]


def _log_since(moment: float) -> Iterator[str]:
    """The kernel's messages after a moment of the monotonic clock; none where we may not read them."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(log, 8192)
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            except OSError:
                return
            head, _, text = record.decode("utf-8", errors="replace").partition(";")
            fields = head.split(",")
            if len(fields) >= 3 and fields[2].isdigit() and int(fields[2]) / 1e6 >= moment:
                yield text.partition("\n")[0]
    finally:
        os.close(log)


def _kills_of_our_group() -> Optional[int]:
    """How often the kernel has killed for memory in our control group; None where that is not told."""
    for folder in _groups():
        for name in _OOM_FILES:
            try:
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    told: Dict[str, str] = dict(line.split()[:2] for line in file if len(line.split()) >= 2)
            except (OSError, ValueError):
                continue
            if told.get("oom_kill", "").isdigit():
                return int(told["oom_kill"])
    return None


def _limit_of_our_group() -> str:
    """`; it held 0.5 of 0.5 GB at the most`; empty where no limit is told."""
    for folder in _groups():
        for peak, limit in (("memory.peak", "memory.max"), ("memory.max_usage_in_bytes", "memory.limit_in_bytes")):
            try:
                had, most = (_number(os.path.join(folder, name)) for name in (peak, limit))
            except (OSError, ValueError):  # version 2 says `max` for no limit
                continue
            if most < _NO_LIMIT_BYTES:
                return f"; it held {had / 2**30:.2g} of {most / 2**30:.2g} GB at the most"
    return ""


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


def _groups() -> Sequence[str]:
    """The folders of our memory control group: of version 2, then of version 1."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            rows = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    unified = [f"/sys/fs/cgroup{row[2]}" for row in rows if len(row) == 3 and row[0] == "0"]
    memory = [f"/sys/fs/cgroup/memory{row[2]}" for row in rows if len(row) == 3 and "memory" in row[1].split(",")]
    return unified + memory
