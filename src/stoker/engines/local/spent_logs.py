"""The logs of replicas that have ended: each is deleted when the server has all of its lines, on the disk for good.

So there is one copy of a line after the end, as there has to be two while a replica runs (docs/decisions/0010).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from stoker.core.errors import StokerError
from stoker.runtime.folder import Folder

from .replica_log import last_number

Kept = Callable[[str, str], int]
"""(attempt, replica) → the number of the last line that is kept of it, and will be whatever happens to the machine."""

LOOK_SECONDS = 1.0
_MOST_LOOKS = 30
_log = logging.getLogger("stoker.engine")


class SpentLogs:
    """Deletes them beside the loop. One that the server has not all of is left where it is."""

    def __init__(self, runs: Path, kept: Kept) -> None:
        self._runs = runs
        self._kept = kept
        self._lock = threading.Lock()
        self._waiting: deque[Folder] = deque()
        self._runs_now = False

    def add(self, folders: Iterable[Folder]) -> None:
        """Note that replicas have ended; their supervisors may still be there for a moment."""
        found = [folder for folder in folders if os.path.exists(folder.log_file)]
        with self._lock:
            self._waiting.extend(found)
            is_needed = bool(self._waiting) and not self._runs_now
            self._runs_now = self._runs_now or is_needed
        if is_needed:
            threading.Thread(target=self._run, name="spent-logs", daemon=True).start()

    def look(self) -> bool:
        """Go through them once. Returns whether some wait for their supervisors to end."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        later = [folder for folder in waiting if not self._is_done(folder)]
        with self._lock:
            self._waiting.extendleft(reversed(later))
            self._runs_now = self._runs_now and bool(self._waiting)
            return bool(self._waiting)

    def _run(self) -> None:
        for _ in range(_MOST_LOOKS):
            if not self.look():
                return
            time.sleep(LOOK_SECONDS)
        with self._lock:
            self._runs_now = False

    def _is_done(self, folder: Folder) -> bool:
        """Delete a replica's log, if nothing of it would be lost. Returns whether there is nothing more to do about it."""
        if folder.supervisor_lives():
            return False
        attempt = os.path.relpath(os.path.dirname(folder.path), self._runs)
        replica = os.path.basename(folder.path)
        try:
            last = last_number(folder.log_file)
            if last and self._kept(attempt, replica) < last:
                _log.warning("the server has not all lines of %s/%s: %s stays", attempt, replica, folder.log_file)
                return True
            with suppress(FileNotFoundError):
                os.unlink(folder.log_file)
        except (OSError, StokerError) as error:
            _log.warning("%s cannot be deleted: %s", folder.log_file, error)
        return True
