"""How much the jobs of each project have left in the home: their logs, and the folders of their attempts.

Measured in a thread of its own, now and then and a little at a time. Who submits a job never waits for it, but for a moment when
the server has just been started.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stoker.core.errors import NotReady, Violation
from stoker.runtime.disk_use import measure

LOOK_SECONDS = 60.0
_AGAIN_SECONDS = 5.0  # when somebody was refused, who may be making room now
_FIRST_SECONDS = 1.0
_SHARE = 4  # for each second of measuring, so many of rest
_FOLDERS = ("logs", "runs")
_GB = 1e9
_log = logging.getLogger("stoker")


class ProjectDisk:
    """Refuses new jobs of projects that have left more than they may."""

    def __init__(self, home: Path, most_bytes: float, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """`most_bytes` of each project; 0 is no limit, and nothing is measured."""
        self._home = home
        self._most_bytes = most_bytes
        self._sleep = sleep
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_measured = threading.Event()
        self._is_wanted = threading.Event()

    def check(self, project: str) -> None:
        """Raise NotReady for a project that may submit no job now."""
        if not self._most_bytes:
            return
        self._start()
        self._is_measured.wait(_FIRST_SECONDS)
        used = self._used.get(project, 0)
        if used <= self._most_bytes:
            return
        self._is_wanted.set()
        problem = (
            f"the jobs of the project {project} have left {used / _GB:.2f} GB here as logs and in working directories,"
            f" and may leave {self._most_bytes / _GB:g} GB"
        )
        raise NotReady(
            [Violation("project", problem)],
            fix=f"delete what old jobs have left in {self._home / 'runs' / project}, or have an admin raise project_disk_gb or"
            " lower keep_runs_days; it is measured again within a minute",
        )

    def measure(self) -> None:
        """Find out what each project uses now."""
        used: dict[str, int] = {}
        for project in self._projects():
            for size in self._paced(measure([str(self._home / folder / project) for folder in _FOLDERS])):
                used[project] = size
        self._used = used

    def _projects(self) -> set[str]:
        folders = [self._home / folder for folder in _FOLDERS]
        return {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()}

    def _paced(self, sizes: Iterator[int]) -> Iterator[int]:
        started = time.monotonic()
        for size in sizes:
            yield size
            self._sleep(_SHARE * (time.monotonic() - started))
            started = time.monotonic()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="project-disk", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._is_wanted.clear()
            try:
                self.measure()
            except OSError as error:
                _log.warning("what projects use of the disk cannot be measured: %s", error)
            self._is_measured.set()
            self._sleep(_AGAIN_SECONDS)
            self._is_wanted.wait(LOOK_SECONDS - _AGAIN_SECONDS)
