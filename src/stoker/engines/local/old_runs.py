"""The folders of ended attempts: kept for some days, for what programs left there, and then removed."""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker.runtime.folder import Folder

KEEP_RUNS_DAYS = 14.0
_LOOK_SECONDS = 6 * 3600.0
_log = logging.getLogger("stoker.engine")


def attempts_in(runs: Path) -> Iterator[str]:
    """The ids of the attempts that have a folder: `project/job.1`."""
    for project in sorted(runs.iterdir()) if runs.is_dir() else ():
        if project.is_dir():
            yield from (f"{project.name}/{attempt.name}" for attempt in sorted(project.iterdir()) if attempt.is_dir())


class OldRuns:
    """Removes the folders of attempts in which nothing has happened for long."""

    def __init__(self, runs: Path, keep_days: float) -> None:
        self._runs = runs
        self._keep_seconds = keep_days * 86400.0
        self._due_at = 0.0

    def prune_when_due(self) -> None:
        """Look again, now and then, beside the loop: a folder may hold much."""
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + _LOOK_SECONDS
            threading.Thread(target=self.prune, args=(time.time(),), name="old-runs", daemon=True).start()

    def prune(self, now: float) -> list[str]:
        """Remove what is old and has no living supervisor. Returns the attempts."""
        removed = []
        for attempt in attempts_in(self._runs):
            folder = self._runs / attempt
            try:
                if now - _last_news(folder) > self._keep_seconds and not _lives(folder):
                    remove(folder)
                    removed.append(attempt)
            except OSError as error:
                _log.warning("the old folder %s cannot be removed: %s", folder, error)
                continue
            with suppress(OSError):
                folder.parent.rmdir()  # of a project that has no other
        return removed


def remove(folder: Path) -> None:
    """Remove a folder, whatever a program has left in it. Raises OSError."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):  # folders that are nested too deeply for Python
        done = subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip()[:500]) from None


def _last_news(folder: Path) -> float:
    """When its engine or a supervisor last wrote there. What a program writes does not count: it has ended."""
    files = [folder, folder / "stop", *folder.glob("*"), *folder.glob("*/status.json"), *folder.glob("*/log.jsonl")]
    times = []
    for file in files:
        with suppress(FileNotFoundError):
            times.append(file.stat().st_mtime)
    return max(times)


def _lives(folder: Path) -> bool:
    return any(Folder(str(path)).supervisor_lives() for path in folder.iterdir() if path.is_dir())
