"""Who goes first when a machine is full: its server before supervisors, and those before programs.

By the kernel's own numbers, as far as it lets us: who is killed for want of memory (`oom_score_adj`), who runs first (`nice`; of
sessions, where they are grouped, `autogroup`), and how many processes a user may have (RLIMIT_NPROC). All of it best effort.
"""

from __future__ import annotations

import os
import resource
from typing import List

from .processes import die_with_parent

SERVER_OOM, SUPERVISOR_OOM, PROGRAM_OOM = -900, -400, 500
SERVER_NICE, PROGRAM_NICE = -5, 5

_most_processes = 0  # that a user may have in all, as the programs of this supervisor see it; 0: as ever


def be_server() -> "tuple[int, List[str]]":
    """Go before all others. To be called before any thread is started.

    Returns by how much supervisors have to be nicer than this process, and what was had, in words.
    """
    had: List[str] = []
    if _write("/proc/self/oom_score_adj", SERVER_OOM):
        had.append(f"oom_score_adj {SERVER_OOM}")
    try:
        before = os.nice(0)
        os.nice(SERVER_NICE)
    except OSError:
        return 0, had
    if os.getsid(0) == os.getpid():  # else the group is that of somebody's terminal
        _write("/proc/self/autogroup", SERVER_NICE)
    had.append(f"nice {os.nice(0)}")
    return before - os.nice(0), had


def be_supervisor(nicer: int, most_processes: int) -> None:
    """Go behind the server. `most_processes`: that the user of a program may have in all; 0: no limit of ours."""
    global _most_processes
    _most_processes = most_processes
    _raise_oom(SUPERVISOR_OOM)
    if nicer > 0:
        os.nice(nicer)


def be_program() -> None:
    """Go behind all others, and end with the supervisor. Called in the child, before the program."""
    die_with_parent()
    _raise_oom(PROGRAM_OOM)
    os.nice(PROGRAM_NICE)
    _write("/proc/self/autogroup", PROGRAM_NICE)
    if _most_processes:
        now = resource.getrlimit(resource.RLIMIT_NPROC)
        most = min([_most_processes, *(limit for limit in now if limit != resource.RLIM_INFINITY)])
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _raise_oom(number: int) -> None:
    """Be killed sooner, never later, than was said before."""
    try:
        with open("/proc/self/oom_score_adj", encoding="ascii") as file:
            if int(file.read()) >= number:
                return
    except (OSError, ValueError):
        return
    _write("/proc/self/oom_score_adj", number)


def _write(path: str, number: int) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(number))
    except OSError:
        return False
    return True
