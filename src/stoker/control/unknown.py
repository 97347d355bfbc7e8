"""Work of this home that its database does not know: the database has lost its end, or another stands in its place.

What runs is written down before it is started. So whatever an engine or the logs have of an attempt that the database has never
heard of was there before the database lost it. Nobody can tell then which devices are in use, or whether a name is taken:
nothing is ended, nothing is started, and no job is taken, until an admin has chosen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.errors import NotYet
from stoker.core.ids import job_of_attempt
from stoker.engines.base import ServedEngine
from stoker.store.base import Store
from stoker.store.logs import Logs
from stoker.store.restore import FORGET

_MOST_NAMED = 3
_FIX = (
    "bring a backup back (stoker down; stoker restore FILE --force); or go on without them (stoker down; stoker up"
    " --forget-unknown): what runs of them is ended, and their files are moved into a folder unknown-… of the home"
)
_log = logging.getLogger("stoker")


@dataclass(slots=True, kw_only=True)
class Unknown:
    """What is here and not in the database, as it was found when this server took the lead."""

    home: Path
    store: Store
    logs: Logs
    engines: Mapping[str, ServedEngine]
    forget: bool = False  # the admin's choice
    attempts: frozenset[str] = field(default=frozenset())
    jobs: frozenset[str] = field(default=frozenset())  # of which there is output, and nothing else

    def look(self) -> None:
        """Find it. To be called before anything is ended or started."""
        found = {attempt for engine in self.engines.values() for attempt in engine.attempts()}
        self.attempts = frozenset(self.store.unknown_attempts(found))
        of_attempts = set(map(job_of_attempt, self.attempts))
        self.jobs = frozenset(self.store.unknown_jobs(self.logs.jobs()) - of_attempts)

    @property
    def is_chosen(self) -> bool:
        """Whether what is found is to be forgotten."""
        return self.forget or (self.home / FORGET).exists()

    @property
    def ids(self) -> frozenset[str]:
        """Whatever was found."""
        return self.attempts | self.jobs

    def put_away(self) -> None:
        """Move what is left of the unknown ones, which have been ended, into a folder of the home. What runs on stays unknown."""
        if self.ids:
            folder = self.home / time.strftime("unknown-%Y%m%d-%H%M%S")
            running: set[str] = set()
            for engine in self.engines.values():
                running |= engine.put_away(self.attempts, folder / "runs")
            gone = self.attempts - running
            lost = self.store.unknown_jobs(set(map(job_of_attempt, gone))) | self.jobs
            for job in lost:
                self.logs.put_away(job, folder / "logs")
            for job in set(map(job_of_attempt, gone)) - lost:
                self.logs.put_away(job, folder / "logs", gone)
            _log.warning("%s: forgotten, and moved to %s", self._named(), folder)
            self.attempts, self.jobs = frozenset(running), frozenset()
        if not self.ids:
            (self.home / FORGET).unlink(missing_ok=True)
            self.forget = False

    def problem(self) -> str:
        """What was found, and what to choose; empty: nothing."""
        return f"{self._said()}. What to do: {_FIX}" if self.ids else ""

    def check(self) -> None:
        """Raise NotYet for new jobs while something is unknown."""
        if self.ids:
            raise NotYet(f"{self._said()}; new jobs are not taken until that is decided", fix=_FIX)

    def check_attempt(self, attempt: str) -> None:
        """Raise NotYet for a replica of an attempt that may be known again."""
        if attempt in self.attempts:
            raise NotYet(f"the database has lost attempt {attempt}; ask again")

    def _said(self) -> str:
        return (
            f"the database does not know {self._named()}, of which there are files here: it has lost its end, or is not the"
            " one with which they were run. What runs goes on, and nothing else is started"
        )

    def _named(self) -> str:
        kinds = [(self.attempts, "attempt"), (self.jobs, "job")]
        parts = []
        for ids, kind in kinds:
            if ids:
                some = sorted(ids)[:_MOST_NAMED]
                more = ", …" if len(ids) > len(some) else ""
                parts.append(f"{len(ids)} {kind}{'s' * (len(ids) > 1)} ({', '.join(some)}{more})")
        return " and ".join(parts)
