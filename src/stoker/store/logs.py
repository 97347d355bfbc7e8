"""The output of jobs: one file per job, in the order of arrival. A line is kept once, however often it is shipped.

What their programs tell of their steps comes the same way, as lines of a stream of its own, and is kept in a file beside it; so
is what was found of their processes.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from stoker.clock import Clock, SystemClock
from stoker.core.ids import job_of_attempt

from .log_file import LogFile, LogLine, drop_lines, read_lines
from .log_limit import LogLimit

STEPS, PROFILE, USAGE = "steps", "profile", "usage"
"""The streams of what programs tell of their steps, of what was found of their processes, and of what those use.

runtime/ has the same.
"""

ASIDE = (STEPS, PROFILE, USAGE)
"""They are no output."""

ASIDE_SHARE = 0.25
"""Of what is kept of a job's output, so much is kept of each of them as well."""

_SUFFIX = ".jsonl"

MOST_REMEMBERED = 2000
"""So many jobs' numbers and indexes are in memory, those last used; another's are read from its file again."""


class Logs:
    """The files `logs/<project>/<job>.jsonl`, `<job>.steps.jsonl`, `<job>.profile.jsonl`. Safe to call from any thread."""

    def __init__(
        self,
        folder: Path,
        clock: Clock | None = None,
        *,
        most_remembered: int = MOST_REMEMBERED,
        most_bytes: float = 0.0,
        writes: Callable[[], bool] = lambda: True,
    ) -> None:
        """`most_bytes`: of a job's output; 0 is no limit. `writes`: whether it is this server that writes them."""
        self._most_bytes = most_bytes
        self._writes = writes
        self._folder = folder
        self._clock = clock or SystemClock()
        self._most = most_remembered
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, LogFile] = OrderedDict()
        self._used: WeakValueDictionary[str, LogFile] = WeakValueDictionary()  # one a job, while any thread has it
        self._listeners: list[Callable[[str], None]] = []

    def append(self, attempt: str, replica: str, lines: Iterable[Mapping[str, Any]]) -> int:
        """Add what is new of {n, t, s, m}. Returns the replica's last number."""
        job, lines = job_of_attempt(attempt), list(lines)
        # The output first: should the rest fail, no number says that what comes before it is kept.
        number, is_news = self._file(job).append(attempt, replica, [line for line in lines if line["s"] not in ASIDE])
        for stream in {line["s"] for line in lines}.intersection(ASIDE):
            told = [line for line in lines if line["s"] == stream]
            number = max(number, self._file(_aside(job, stream)).append(attempt, replica, told)[0])
        if is_news:
            self._ring(job)
        return number

    def end(self, attempt: str, replica: str) -> None:
        """A replica has no more lines: say what was left out of them, if anything was."""
        job = job_of_attempt(attempt)
        if self._file(job).end(attempt, replica):
            self._ring(job)

    def kept_for_good(self, attempt: str, replica: str) -> int:
        """The number of the last line of a replica that is kept, also if the machine loses its power now."""
        last = self.last_number(attempt, replica)
        for name in _files(job_of_attempt(attempt)):
            with suppress(FileNotFoundError), open(self._path(name), "rb") as file:
                os.fsync(file.fileno())
        return last

    def is_full(self, job: str) -> bool:
        """Whether of a job's output nothing more is kept."""
        return self._file(job).is_full()

    def lost_after(self, attempt: str, replica: str, shipped: int) -> int | None:
        """The number after which lines are missing that a replica had shipped once, such as by a backup; None: none are."""
        last = self.last_number(attempt, replica)
        return last if last < shipped and not self.is_full(job_of_attempt(attempt)) else None

    def last_number(self, attempt: str, replica: str) -> int:
        """The number of the last line that is kept of a replica."""
        job = job_of_attempt(attempt)
        return max(self._file(name).last_number(attempt, replica) for name in _files(job))

    def aside(self, job: str, stream: str, *, last_bytes: int = 0) -> Iterator[LogLine]:
        """The lines of a stream that is no output. `last_bytes`: only whole lines among so much of its end."""
        path, size = self._path(_aside(job, stream)), 0
        if last_bytes:
            with suppress(FileNotFoundError):
                size = path.stat().st_size
        return read_lines(path, max(0, size - last_bytes))

    def read(self, job: str, offset: int = 0) -> Iterator[LogLine]:
        """The lines of a job from an offset on, as far as they are whole. Their moments are not exact."""
        return read_lines(self._path(job), offset)

    def since(self, job: str, moment: int) -> Iterator[LogLine]:
        """The lines of a moment (microseconds since the epoch) and later, in order."""
        return self._file(job).since(moment)

    def until(self, job: str, moment: int) -> Iterator[LogLine]:
        """The lines of a moment and earlier, the latest first."""
        return self._file(job).until(moment)

    def seal(self, job: str, moment: int) -> int:
        """Let every line that comes from now on be later than a moment, or than now if that is earlier; returns that moment.

        For who tells all that there is until then, and reads on after it.
        """
        return self._file(job).seal(moment, by_reader=not self._writes())

    def forget(self, job: str) -> None:
        """Drop the lines of a job that has ended, for good."""
        for name in _files(job):
            with self._lock:
                self._recent.pop(name, None)
                self._used.pop(name, None)
            self._path(name).unlink(missing_ok=True)

    def jobs(self) -> set[str]:
        """The jobs of which there is a file."""
        return {
            f"{project.name}/{name.partition('.')[0]}"
            for project in (os.scandir(self._folder) if self._folder.is_dir() else ())
            if project.is_dir()
            for name in os.listdir(project)
            if name.endswith(_SUFFIX)
        }

    def put_away(self, job: str, folder: Path, attempts: Collection[str] = ()) -> None:
        """Move a job's files into a folder. With `attempts`: keep what others of its attempts have said, and copy instead."""
        for name in _files(job):
            path, away = self._path(name), folder / f"{name}{_SUFFIX}"
            with self._lock:
                self._recent.pop(name, None)
                self._used.pop(name, None)
            if not path.exists():
                continue
            away.parent.mkdir(parents=True, exist_ok=True)
            if not attempts:
                path.replace(away)
                continue
            shutil.copy2(path, away)
            drop_lines(path, attempts)

    def listen(self, ring: Callable[[str], None]) -> None:
        """Call `ring(job)` whenever a job has new lines."""
        self._listeners.append(ring)

    def _ring(self, job: str) -> None:
        for ring in self._listeners:
            ring(job)

    def _file(self, job: str) -> LogFile:
        with self._lock:
            found = self._used.get(job)
            if found is None:
                is_aside = "." in job
                most = self._most_bytes * (ASIDE_SHARE if is_aside else 1.0)
                limit = LogLimit(most, self._clock, is_told=not is_aside)
                found = self._used[job] = LogFile(self._path(job), self._clock, limit)
            self._recent[job] = found
            self._recent.move_to_end(job)
            if len(self._recent) > self._most:
                self._recent.popitem(last=False)
            return found

    def _path(self, job: str) -> Path:
        return self._folder / f"{job}{_SUFFIX}"


def _aside(job: str, stream: str) -> str:
    """What stands for a job in the name of the file of such a stream: no job has a point in its name."""
    return f"{job}.{stream}"


def _files(job: str) -> list[str]:
    return [job, *(_aside(job, stream) for stream in ASIDE)]
