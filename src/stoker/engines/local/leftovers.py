"""What a supervisor that was killed left behind: found by every mark that a process can bear, and ended.

A replica's processes are known by their control group and by their PID namespace, where there are such; and always by a
variable that all of them inherit, by what the supervisor noted of them, and by being below one that is known.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from stoker.runtime import cgroups
from stoker.runtime.folder import Folder
from stoker.runtime.processes import started

MARK = "STOKER_RUN"
"""The variable: it tells the runs of this machine apart, whichever server they belong to."""

_LOOKS = 5
_PAUSE_SECONDS = 0.01
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def mark_of_home(runs: Path) -> str:
    """What the marks of a server's runs begin with."""
    return _digest(str(runs), 8) + "-"


def mark(runs: Path, folder: Folder) -> str:
    """The mark of one replica's processes."""
    return mark_of_home(runs) + _digest(folder.path, 16)


def end_leftovers(folder: Folder, mark: str) -> bool:
    """End what is left of a replica whose supervisor is gone. Returns whether nothing is left: if not, ask again."""
    groups = _groups(folder)
    known = folder.read_processes()
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        is_empty = all([cgroups.kill(group) for group in groups[:1]])
        if not _end(lambda process: _bears(process, mark, known)) and is_empty:
            cgroups.remove(groups)
            with suppress(OSError):
                os.unlink(folder.processes_file)  # nobody need look again
            return True
    return False


def end_strays(runs: Path, kept: Collection[str]) -> int:
    """End the processes of this server's runs that bear none of the marks that are kept. Returns how many there were."""
    ours = mark_of_home(runs)

    def is_stray(process: psutil.Process) -> bool:
        found = process.environ().get(MARK, "")
        return found.startswith(ours) and found not in kept

    return _end(is_stray)


def forget_group(folder: Folder) -> None:
    """Remove the control group of a replica that has ended."""
    cgroups.remove(_groups(folder))


def _end(is_meant: Callable[[psutil.Process], bool]) -> int:
    """Kill the processes that are meant, with all below them. Returns how many lived."""
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    count = 0
    for process in _with_descendants(is_meant):
        with suppress(psutil.Error):
            if process.pid not in spared and process.status() not in _ENDED:
                process.kill()  # psutil makes sure that the id is still that process's
                count += 1
    return count


def _with_descendants(is_meant: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if is_meant(process):
                yield from process.children(recursive=True)
                yield process


def _bears(process: psutil.Process, mark: str, known: Mapping[str, Any]) -> bool:
    """Whether a process is known to be the replica's."""
    if any(pid == process.pid and began == started(pid) for pid, began in known.get("processes", ())):
        return True
    # A namespace's number is another's as soon as its first process has ended; and then nobody is left in it.
    numbers = [number for first, began, number in known.get("namespaces", ()) if number and began == started(first)]
    if numbers:
        with suppress(OSError):
            if os.stat(f"/proc/{process.pid}/ns/pid").st_ino in numbers:
                return True
    return process.environ().get(MARK) == mark


def _groups(folder: Folder) -> list[str]:
    """The folders of the replica's control group, as its request names them."""
    try:
        return [str(path) for path in json.loads(Path(folder.request_file).read_text()).get("cgroup", ())]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return []


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:length]
