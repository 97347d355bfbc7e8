"""Whether a program stands still: three signals, and all of them have to be quiet.

Output (any line), the beat (a file that the program may touch: STOKER_BEAT_FILE), and progress (what its processes use of the
processor, and read and write). Looked at now and then, by the monotonic clock. If we were suspended ourselves, or somebody
has stopped the program's processes (SIGSTOP), the time before does not count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from .lines import Log

LEAST_FIRST_SECONDS = 3600.0
"""So long a program may be silent before its first line or beat: it may be loading."""

_LEAST_LOOK_SECONDS = 0.2
_MOST_LOOK_SECONDS = 30.0
_LOOKS = 20  # in the time after which it counts as hung
_SUSPENDED_SECONDS = 5.0  # looks that are so much later than they should be: we stood still ourselves
_IDLE_SHARE = 0.01  # of one processor
_IDLE_CPU_SECONDS = 0.02  # two ticks of the kernel's clock
_IDLE_BYTES_A_SECOND = 1024
_MOST_PROCESSES = 20
_MOST_STACK_LINES = 200
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    """What one process has used so far."""

    cpu_seconds: float
    io_bytes: int
    is_stopped: bool


class Watch:
    """Watches one run of a program."""

    def __init__(
        self,
        seconds: float,
        log: Log,
        beat_file: str,
        processes: Callable[[], List[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: how long it may be quiet. `processes`: the ids of all of its processes."""
        self._seconds = seconds
        self._log = log
        self._beat_file = beat_file
        self._processes = processes
        self._clock = clock
        self._every = min(_MOST_LOOK_SECONDS, max(_LEAST_LOOK_SECONDS, seconds / _LOOKS))
        self._looked_at = self._quiet_since = clock()
        self._lines = log.heard
        self._beat = _touched(beat_file)
        self._use: Dict[int, Use] = {}
        self._has_spoken = bool(log.last_output or log.last_errors)
        self._is_quiet = False

    def look(self) -> Optional[bool]:
        """Whether it has become quiet (True), or goes on again (False); None: as before. Costs nothing when asked too soon."""
        now = self._clock()
        passed = now - self._looked_at
        if passed < self._every:
            return None
        self._looked_at = now
        if self._goes_on(passed) or passed > self._every + _SUSPENDED_SECONDS:
            self._quiet_since = now
        limit = self._seconds if self._has_spoken else max(self._seconds, LEAST_FIRST_SECONDS)
        was_quiet, self._is_quiet = self._is_quiet, now - self._quiet_since >= limit
        return None if self._is_quiet == was_quiet else self._is_quiet

    def evidence(self) -> str:
        """What was quiet for how long, and what the program did meanwhile, in one line."""
        seconds = self._clock() - self._quiet_since
        doing = sorted({_waits_in(pid) for pid in self._processes()} - {""})
        waits = f"; waiting in {', '.join(doing[:3])}" if doing else ""
        return f"no output, no beat and no progress for {seconds:.0f} s{waits}"

    def describe(self) -> List[str]:
        """What each of its processes does, in lines."""
        lines: List[str] = []
        for pid in self._processes()[:_MOST_PROCESSES]:
            lines.append(f"process {pid} ({command_of(pid)}): {_state(pid)}, waiting in {_waits_in(pid) or 'nothing'}")
            lines += [f"    {frame}" for frame in stack(pid)]
        return lines

    def heard_ourselves(self) -> None:
        """The last lines were the supervisor's own."""
        self._lines = self._log.heard

    def _goes_on(self, passed: float) -> bool:
        """Whether any of the three signals has moved since the last look."""
        lines, beat = self._log.heard, _touched(self._beat_file)
        has_spoken = lines != self._lines or beat != self._beat
        self._has_spoken = self._has_spoken or has_spoken
        self._lines, self._beat = lines, beat
        before, self._use = (
            self._use,
            {pid: use for pid in self._processes() for use in [_used(pid)] if use is not None},
        )
        pairs = [(use, before[pid]) for pid, use in self._use.items() if pid in before]
        cpu = sum(max(0.0, now.cpu_seconds - then.cpu_seconds) for now, then in pairs)
        moved = sum(max(0, now.io_bytes - then.io_bytes) for now, then in pairs)
        is_stopped = bool(self._use) and all(use.is_stopped for use in self._use.values())
        works = cpu > passed * _IDLE_SHARE + _IDLE_CPU_SECONDS or moved > passed * _IDLE_BYTES_A_SECOND
        return has_spoken or works or is_stopped


def _touched(path: str) -> int:
    """When a file was last touched; 0: it is not there."""
    try:
        return os.lstat(path).st_mtime_ns  # the program's own file: a link of its making leads nobody elsewhere
    except OSError:
        return 0


def _used(pid: int) -> Optional[Use]:
    """What a process has used; None if it is gone. What may not be read counts as nothing."""
    fields = _stat(pid)
    if not fields:
        return None
    moved = 0
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            told = dict(line.split(": ") for line in file)
        moved = int(told["rchar"]) + int(told["wchar"])
    except (OSError, ValueError, KeyError):
        pass
    return Use((int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND, moved, fields[0] in "Tt")


def _stat(pid: int) -> List[str]:
    """The fields of /proc/PID/stat from the third on; empty if there is no such process."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _state(pid: int) -> str:
    words = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "t": "traced", "Z": "ended"}
    fields = _stat(pid)
    return words.get(fields[0], fields[0]) if fields else "gone"


def _waits_in(pid: int) -> str:
    """The kernel's function that a process waits in."""
    found = _read(f"/proc/{pid}/wchan").strip()
    return "" if found == "0" else found


def command_of(pid: int) -> str:
    """What a process was started as, in one line."""
    return " ".join(_read(f"/proc/{pid}/cmdline").replace("\0", " ").split())[:120]  # a program given by `-c` has lines


def stack(pid: int) -> List[str]:
    """Where a process is: in Python, if py-spy is installed; else in the kernel, where we may read that."""
    spy = find_spy()
    if spy:
        try:
            told = subprocess.run([spy, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=20.0)
            if told.returncode == 0:
                return told.stdout.splitlines()[:_MOST_STACK_LINES]
        except (OSError, subprocess.SubprocessError):
            pass
    return _read(f"/proc/{pid}/stack").splitlines()[:8]


def find_spy() -> str:
    """Where py-spy is: beside the Python that we run on, or on the path; empty: nowhere."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
