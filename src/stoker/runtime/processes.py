"""The program's processes: started in a session of their own, and ended with all their descendants.

On Linux the supervisor makes itself the reaper of orphans (PR_SET_CHILD_SUBREAPER): a grandchild that leaves its process
group, or whose parent dies, becomes the supervisor's child and is found by walking down from there. Elsewhere only the
process group is known, and a child that leaves it escapes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Dict, List

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1


def become_reaper() -> None:
    """Adopt every orphan below this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent dies. Called in the child, before the program."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants() -> List[int]:
    """The ids of all processes below this one."""
    children: Dict[int, List[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: List[int] = []
    ask = [os.getpid()]
    while ask:
        below = children.get(ask.pop(), [])
        found.extend(below)
        ask.extend(below)
    return found


def signal_all(number: int) -> int:
    """Send a signal to every descendant. Returns how many there were."""
    count = 0
    for pid in descendants():
        try:
            os.kill(pid, number)
            count += 1
        except (ProcessLookupError, PermissionError):
            pass
    return count


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


def _parents() -> Dict[int, int]:
    """Process id → its parent's, of every process that is not a zombie."""
    parents: Dict[int, int] = {}
    if not os.path.isdir("/proc/self"):
        return parents
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(name)] = int(parent)
    return parents


if sys.platform.startswith("linux"):
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)

    def _prctl(option: int, value: int) -> None:
        _libc.prctl(option, value, 0, 0, 0)
else:

    def _prctl(option: int, value: int) -> None:
        """Not on this system."""
