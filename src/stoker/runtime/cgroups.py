"""A control group for each replica, where the kernel lets us make one: all of its processes are in it, whatever they do.

A process cannot leave its group by forking, by a new session or by clearing its environment, so what is in the group is what
is left. Version 2 kills a group in one go; in version 1 the group is frozen, so that nobody forks while all are killed.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Dict, Iterator, List, Optional

_CONTROLLERS = ("memory", "pids", "cpu")
_LIMIT_FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max", "pids.max")}
_PROBE_SECONDS = 2.0
_CPU_PERIOD_MICROSECONDS = 100_000  # the kernel's own


class Cgroups:
    """Where control groups can be made."""

    def __init__(self, kind: str, base: str, limits: Dict[str, str]) -> None:
        self.kind = kind  # `cgroup v2` or `cgroup v1`
        self.base = base  # the folder of the groups by which processes are found and killed
        self.limits = limits  # controller → the folder of its groups; the same as the base in version 2

    def group(self, name: str) -> List[str]:
        """The folders of a group, the one to kill by first."""
        bases = dict.fromkeys([self.base, *self.limits.values()])
        return [os.path.join(base, name) for base in bases]

    def make(
        self, name: str, memory_bytes: int = 0, processes: int = 0, vcpus: float = 0.0, *, is_hard: bool = False
    ) -> List[str]:
        """Make a group and set its limits; 0: none. Returns its folders. Raises OSError.

        `vcpus`: where there is not enough for all, its part of the processors is in this proportion to that of others; `is_hard`:
        and it gets no more in any case.
        """
        for folder in self.group(name):
            os.makedirs(folder, exist_ok=True)
        for controller, limit in (("memory", memory_bytes), ("pids", processes)):
            if limit and controller in self.limits:
                file = next(f for f in _LIMIT_FILES[controller] if self._has(controller, name, f))
                _write(os.path.join(self.limits[controller], name, file), str(limit))
        if vcpus and "cpu" in self.limits:
            quota = max(1000, int(vcpus * _CPU_PERIOD_MICROSECONDS))
            asked = {
                "cpu.weight": str(_between(1, int(100 * vcpus), 10_000)),
                "cpu.shares": str(max(2, int(1024 * vcpus))),
            }
            if is_hard:
                asked.update({"cpu.max": f"{quota} {_CPU_PERIOD_MICROSECONDS}", "cpu.cfs_quota_us": str(quota)})
            for file, value in asked.items():
                self._set("cpu", file, value, name)
        return self.group(name)

    def hold_all(self, memory_bytes: int, cores: int) -> List[str]:
        """Hold all groups together to so much memory, and to a part of the time of cores that others want as well.

        Returns what could be had, in words. On each core they weigh as much as one process that is in none of them, such as the
        server.
        """
        had: List[str] = []
        if "cpu" in self.limits:
            for file, weight_of_one in (("cpu.weight", 100), ("cpu.shares", 1024)):
                weight = weight_of_one * min(cores, 100)  # on each core, as much as one process of others
                if self._set("cpu", file, weight):
                    had.append(f"{file} {weight}")
        if memory_bytes and "memory" in self.limits:
            if any(self._set("memory", file, memory_bytes) for file in _LIMIT_FILES["memory"]):
                had.append(f"{memory_bytes / 2**30:.1f} GB of memory")
        return had

    def _set(self, controller: str, file: str, value: "int | str", name: str = "") -> bool:
        """Set a limit of all groups together, or of the one of this name. Returns whether that could be done."""
        path = os.path.join(self.limits[controller], name, file)
        try:
            if os.path.exists(path):
                _write(path, str(value))
                return True
        except OSError:  # they have more at this moment, or whoever made the groups above gives less
            pass
        return False

    def names(self) -> List[str]:
        """The groups that there are."""
        return [entry.name for entry in os.scandir(self.base) if entry.is_dir()] if os.path.isdir(self.base) else []

    def _has(self, controller: str, name: str, file: str) -> bool:
        return os.path.exists(os.path.join(self.limits[controller], name, file))


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))


def find(name: str) -> Optional[Cgroups]:
    """Where this process may make groups, below a folder of this name; None where it may not. Tried, not guessed."""
    mounts, own = _mounts(), _own()
    for kind, key in (("cgroup v2", ""), ("cgroup v1", "freezer")):
        if key in mounts and key in own:
            base = os.path.join(mounts[key] + own[key].rstrip("/"), name)
            if _works(base):
                return Cgroups(kind, base, _limits(name, mounts, own))
    return None


def own_folders(controller: str) -> List[str]:
    """The folders of the groups that this process is in and that may limit it: of version 1, and of version 2."""
    mounts, own = _mounts(), _own()
    return [mounts[key] + own[key].rstrip("/") for key in (controller, "") if key in mounts and key in own]


def join(folders: List[str]) -> None:
    """Put this process, and so all that it will start, into a group."""
    for folder in folders:
        _write(os.path.join(folder, "cgroup.procs"), str(os.getpid()))


def kill(folder: str) -> bool:
    """Kill everything in a group. Returns whether it is empty now; one that is not there is."""
    try:
        if is_empty(folder):
            return True
        if os.path.exists(os.path.join(folder, "cgroup.kill")):
            _write(os.path.join(folder, "cgroup.kill"), "1")
        else:
            _kill_frozen(folder)
    except FileNotFoundError:
        pass
    return is_empty(folder)


def is_empty(folder: str) -> bool:
    """Whether no living process is in a group, or in one below it."""
    return not any(True for _ in _pids(folder))


def remove(folders: List[str]) -> None:
    """Remove an empty group with those that were made in it; one that is not empty stays."""
    for folder in folders:
        for below, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(below)
            except OSError:
                pass


def _kill_frozen(folder: str) -> None:
    state = os.path.join(folder, "freezer.state")
    _write(state, "FROZEN")
    try:
        for pid in _pids(folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    finally:
        _write(state, "THAWED")


def _pids(folder: str) -> Iterator[int]:
    """The living processes in a group and in those below it."""
    for below, _, _ in os.walk(folder):
        try:
            with open(os.path.join(below, "cgroup.procs"), encoding="ascii") as file:
                yield from map(int, file.read().split())
        except OSError:
            continue


def _works(base: str) -> bool:
    """Whether a group can be made here, entered and killed."""
    import shutil  # costs a supervisor, which never asks, some milliseconds
    import subprocess

    sleep = shutil.which("sleep")
    probe = os.path.join(base, f"probe-{os.getpid()}")
    if sleep is None:
        return False
    try:
        os.makedirs(probe, exist_ok=True)
        child = subprocess.Popen([sleep, "60"], stdin=subprocess.DEVNULL)
    except OSError:
        return False
    try:
        _write(os.path.join(probe, "cgroup.procs"), str(child.pid))
        until = time.monotonic() + _PROBE_SECONDS
        while not kill(probe) and time.monotonic() < until:
            time.sleep(0.001)
        return is_empty(probe) and child.wait(_PROBE_SECONDS) == -signal.SIGKILL
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        child.kill()
        child.wait()
        remove([probe])


def _limits(name: str, mounts: Dict[str, str], own: Dict[str, str]) -> Dict[str, str]:
    """The controllers whose limits can be set, with the folders of their groups."""
    found: Dict[str, str] = {}
    if "" in mounts and "" in own:
        base = os.path.join(mounts[""] + own[""].rstrip("/"), name)
        for controller in _CONTROLLERS:
            try:
                for folder in (
                    os.path.dirname(base),
                    base,
                ):  # whoever has processes in it may not have groups with limits
                    _write(os.path.join(folder, "cgroup.subtree_control"), f"+{controller}")
                found[controller] = base
            except OSError:
                continue
    for controller in _CONTROLLERS:
        if controller not in found and controller in mounts and controller in own:
            folder = os.path.join(mounts[controller] + own[controller].rstrip("/"), name)
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError:
                continue
            if os.access(folder, os.W_OK):
                found[controller] = folder
    return found


def _mounts() -> Dict[str, str]:
    """Controller → where its hierarchy is mounted; the empty name is version 2."""
    found: Dict[str, str] = {}
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, folder, kind, options = line.split()[:4]
                if kind == "cgroup2":
                    found[""] = folder
                elif kind == "cgroup":
                    found.update(dict.fromkeys(options.split(","), folder))
    except OSError:
        pass
    return found


def _own() -> Dict[str, str]:
    """Controller → the group of this process."""
    found: Dict[str, str] = {}
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                found.update(dict.fromkeys(controllers.split(","), path))
    except OSError:
        pass
    return found


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
