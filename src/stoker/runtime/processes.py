"""The program's processes: started in a session of their own, and ended with all their descendants.

On Linux the supervisor makes itself the reaper of orphans (PR_SET_CHILD_SUBREAPER): a grandchild that leaves its process
group, or whose parent dies, becomes the supervisor's child and is found by walking down from there. Elsewhere only the
process group is known, and a child that leaves it escapes.

A process id is given again to others. So a process goes by its id and the moment of its start, and is signalled through a
file descriptor (pidfd) that stands for it alone, where the system has those.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Optional

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1


class Process(NamedTuple):
    """One process, told apart from all others that had or will have its id."""

    pid: int
    started: int  # in the kernel's ticks since boot


def become_reaper() -> None:
    """Adopt every orphan below this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent dies, and leave no core file. Called in the child, before the program."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def descendants(of: Optional[int] = None) -> List[Process]:
    """All processes below a process; below this one, if none is said.

    They are found from parent to child, where the kernel tells children: a machine may have thousands of others. That may miss
    one while a sibling of it ends, so that there are none is believed only of all processes.
    """
    top = os.getpid() if of is None else of
    return _below(top) or _among_all(top)


def _below(top: int) -> List[Process]:
    """The processes below one, as parents name them."""
    found: List[Process] = []
    ask = [top]
    while ask:
        below = _children(ask.pop())
        told = [(pid, _stat(pid)) for pid in below]
        found.extend(Process(pid, stat[1]) for pid, stat in told if stat is not None)
        ask.extend(below)
    return found


def _children(pid: int) -> List[int]:
    """The children of all threads of a process; none where that is not told (CONFIG_PROC_CHILDREN)."""
    found: List[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found.extend(map(int, file.read().split()))
    except OSError:
        pass  # it has ended
    return found


def _among_all(top: int) -> List[Process]:
    """The same, by the parents of all processes."""
    table = living()
    children: Dict[int, List[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: List[Process] = []
    ask = [top]
    while ask:
        below = children.get(ask.pop(), [])
        found.extend(Process(pid, table[pid][1]) for pid in below)
        ask.extend(below)
    return found


def living() -> "Dict[int, tuple[int, int]]":
    """Process id → its parent's id and its start, of every process that is not a zombie; empty where that is not told."""
    found: "Dict[int, tuple[int, int]]" = {}
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                told = _stat(int(name))
                if told is not None:
                    found[int(name)] = told
    return found


def signal_all(number: int, spared: FrozenSet[int] = frozenset()) -> int:
    """Send a signal to every descendant but the spared. Returns how many there were."""
    return sum(send(process, number) for process in descendants() if process.pid not in spared)


def send(process: Process, number: int) -> bool:
    """Send a signal to this process, and to no other that has its id by now. Returns whether it was there."""
    return send_if(process.pid, number, lambda: started(process.pid) == process.started)


def send_if(pid: int, number: int, is_still_it: Callable[[], bool]) -> bool:
    """Send a signal to a process, if it is still the one that is meant once we have hold of it."""
    try:
        if not hasattr(os, "pidfd_open"):
            if is_still_it():
                os.kill(pid, number)
                return True
            return False
        descriptor = os.pidfd_open(pid)
        try:
            if not is_still_it():
                return False
            signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
    except (ProcessLookupError, PermissionError):
        return False
    except OSError:  # this kernel has no pidfd
        if not is_still_it():
            return False
        os.kill(pid, number)
    return True


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, if it is still there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def oom_kills() -> int:
    """How often the kernel has killed for memory since boot; 0 where that is not told."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def started(pid: int) -> Optional[int]:
    """When a process was started, in the kernel's ticks since boot; None for a zombie and for none."""
    told = _stat(pid)
    return told[1] if told else None


def _stat(pid: int) -> "Optional[tuple[int, int]]":
    """A process's parent and start; None for a zombie and for none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]))


if sys.platform.startswith("linux"):
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)

    def _prctl(option: int, value: int) -> None:
        _libc.prctl(option, value, 0, 0, 0)
else:

    def _prctl(option: int, value: int) -> None:
        """Not on this system."""
