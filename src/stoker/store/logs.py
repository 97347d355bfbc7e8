"""The output of jobs: one file per job, in the order of arrival. A line is kept once, however often it is shipped."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.core.ids import job_of_attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of one replica."""

    offset: int  # where the next line starts in the job's file; a reader continues from it
    attempt: str
    replica: str  # `worker-0`
    n: int  # its number among the replica's lines
    time: float
    stream: str  # out, err, service
    text: str


class Logs:
    """Append-only files, `logs/<project>/<job>.jsonl`. Safe to call from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._last: dict[str, dict[tuple[str, str], int]] = {}  # job → (attempt, replica) → its last number
        self._listeners: list[Callable[[str], None]] = []

    def append(self, attempt: str, replica: str, lines: Iterable[Mapping[str, Any]]) -> int:
        """Add what is new of {n, t, s, m}. Returns the replica's last number."""
        job, key = job_of_attempt(attempt), (attempt, replica)
        with self._lock:
            last = self._numbers(job)
            new = [line for line in lines if int(line["n"]) > last.get(key, 0)]
            if new:
                path = self._path(job)
                path.parent.mkdir(parents=True, exist_ok=True)
                text = "".join(
                    json.dumps({"a": attempt, "r": replica, **{k: line[k] for k in ("n", "t", "s", "m")}}) + "\n"
                    for line in new
                )
                _append_whole(path, text.encode())
                last[key] = int(new[-1]["n"])
            number = last.get(key, 0)
        if new:
            for ring in self._listeners:
                ring(job)
        return number

    def last_number(self, attempt: str, replica: str) -> int:
        """The number of the last line that is kept of a replica."""
        with self._lock:
            return self._numbers(job_of_attempt(attempt)).get((attempt, replica), 0)

    def read(self, job: str, offset: int = 0) -> Iterator[LogLine]:
        """The lines of a job from an offset on, as far as they are whole."""
        try:
            file = open(self._path(job), "rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                offset += len(raw)
                try:
                    line = json.loads(raw)
                except ValueError:
                    continue  # the server was cut off in the middle of it; it has been shipped again after
                yield LogLine(
                    offset=offset,
                    attempt=line["a"],
                    replica=line["r"],
                    n=line["n"],
                    time=line["t"],
                    stream=line["s"],
                    text=line["m"],
                )

    def listen(self, ring: Callable[[str], None]) -> None:
        """Call `ring(job)` whenever a job has new lines."""
        self._listeners.append(ring)

    def _numbers(self, job: str) -> dict[tuple[str, str], int]:
        """The last numbers of a job's replicas; read from the file once after a restart."""
        if job not in self._last:
            path = self._path(job)
            if path.exists() and not _ends_whole(path):
                with open(path, "ab") as file:
                    file.write(b"\n")  # close a line that a crash cut off
            self._last[job] = {}
            for line in self.read(job):
                self._last[job][line.attempt, line.replica] = line.n
        return self._last[job]

    def _path(self, job: str) -> Path:
        return self._folder / f"{job}.jsonl"


def _append_whole(path: Path, data: bytes) -> None:
    """All of it or nothing: what a full disk has cut off is taken back, so that it can be shipped again. Raises OSError."""
    with open(path, "ab", buffering=0) as file:
        before = file.tell()
        try:
            if file.write(data) != len(data):
                raise OSError("the disk is full")
        except OSError:
            file.truncate(before)
            raise


def _ends_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
