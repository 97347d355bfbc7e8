"""What this machine has of that which every replica needs, whatever it runs: and so how many replicas it runs at a time."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from stoker.runtime.cgroups import own_folders

_LEAST_REPLICAS, _MOST_REPLICAS = 16, 3_000  # each reserves three of 12,000 ports
_BYTES_EACH = 32 << 20
"""A supervisor, its sandbox and a Python program that imports little take 11 to 20 MB."""

_TASKS_EACH = 16  # processes and threads: a supervisor has 1 to 3, a sandbox 2
_FILES_EACH = 4  # of the server: each supervisor keeps a connection, and a second one while it joins
_REPLICAS_PER_CORE = 100  # 100 start in 3 s on two cores


_TASKS_PER_CORE = 256
_MOST_TASKS_EACH, _LEAST_TASKS_EACH = 10_000, 512
_BYTES_PER_TASK = 4 << 20
_KEPT_SHARE, _LEAST_KEPT, _MOST_KEPT = 1 / 16, 512 << 20, 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a machine has of that which replicas need whatever they run."""

    memory_bytes: int
    tasks: int  # processes and threads
    files: int  # that one process may open
    cores: int

    @classmethod
    def here(cls) -> Resources:
        """Of this machine, or of the container that we are in."""
        limits = [*_numbers("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"), *_of_group("pids", "pids.max")]
        if os.getuid():  # root is held to none
            limits.append(_limit(resource.RLIMIT_NPROC))
        memory = [*_of_group("memory", "memory.max"), *_of_group("memory", "memory.limit_in_bytes")]
        return cls(
            memory_bytes=min([psutil.virtual_memory().total, *memory]),
            tasks=min(limits, default=_UNLIMITED),
            files=_limit(resource.RLIMIT_NOFILE),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        )

    @property
    def tasks_of_replica(self) -> int:
        """How many processes and threads one replica may have, so that a fork bomb leaves room to others."""
        found = min(self.tasks // 8, self.cores * _TASKS_PER_CORE, self.memory_bytes // 2 // _BYTES_PER_TASK)
        return max(_LEAST_TASKS_EACH, min(_MOST_TASKS_EACH, found))

    @property
    def tasks_of_user(self) -> int:
        """How many processes and threads one user may have, where nothing else holds replicas to a limit."""
        return self.tasks // 2

    @property
    def bytes_of_jobs(self) -> int:
        """How much memory all jobs together may have: the rest is for the server, and what else keeps the machine going."""
        kept = min(max(self.memory_bytes * _KEPT_SHARE, _LEAST_KEPT), _MOST_KEPT, self.memory_bytes / 4)
        return int(self.memory_bytes - kept)

    @property
    def replicas(self) -> int:
        """How many replicas it runs at a time, with half of everything left to what they do, and to others."""
        found = min(
            self.memory_bytes // 2 // _BYTES_EACH,
            self.tasks // 2 // _TASKS_EACH,
            self.files // 2 // _FILES_EACH,
            self.cores * _REPLICAS_PER_CORE,
            _MOST_REPLICAS,
        )
        return max(_LEAST_REPLICAS, found)


_UNLIMITED = 1 << 62


def _limit(number: int) -> int:
    hard = resource.getrlimit(number)[1]
    return _UNLIMITED if hard == resource.RLIM_INFINITY else hard


def _of_group(controller: str, file: str) -> list[int]:
    """What the control groups allow that we are in."""
    folders = [Path(folder) for folder in own_folders(controller)]
    return [
        number for folder in folders for above in (folder, *folder.parents) for number in _numbers(str(above / file))
    ]


def _numbers(*files: str) -> Iterable[int]:
    """What these files say, as far as it is a number."""
    for file in files:
        try:
            yield int(Path(file).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
