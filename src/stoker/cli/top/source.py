"""Looks at a server, and goes on looking while it is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.client.client import Client
from stoker.core.errors import NotFound, StokerError

from .recent import POINTS

STEP_POINTS = 120

Job = tuple[str, str]
"""A project and a job's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look has shown."""

    overview: Any = None  # None: the server is away
    job: Job | None = None  # that was asked about
    steps: Any = None  # of this job
    problem: str = ""


class Source:
    """One server, or whoever takes its place: after it was away it is looked up again."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        """`connect`: a client of the server that runs now. Raises StokerError if none does."""
        self._connect = connect
        self._client: Client | None = None
        self.url = ""

    def first(self) -> Any:
        """The overview with the last minutes. Raises StokerError."""
        return self._the_client().overview(POINTS)

    def look(self, job: Job | None) -> Look:
        """One or two requests: the overview, and how a job trains. Never raises for a server that is away."""
        try:
            client = self._the_client()
            return Look(overview=client.overview(), job=job, steps=self._steps(client, job) if job else None)
        except StokerError as error:
            self._drop()
            return Look(problem=error.message)

    def _steps(self, client: Client, job: Job) -> Any:
        try:
            return client.steps(*job, points=STEP_POINTS)
        except NotFound:  # it has ended and was removed, or is another server's
            return None

    def _the_client(self) -> Client:
        if self._client is None:
            self._client = self._connect()
            self.url = self._client.url
        return self._client

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


class Poller:
    """Looks every few seconds, in a thread of its own: one look after the other, never two at a time."""

    def __init__(self, look: Callable[[Job | None], Look], tell: Callable[[Look], None], seconds: float) -> None:
        """`tell` is called in that thread."""
        self._look, self._tell, self._seconds = look, tell, seconds
        self._job: Job | None = None
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Tell nothing more. A look that goes on is not waited for."""
        self._ended = True
        self._wake.set()

    def ask_about(self, job: Job | None) -> None:
        """Look at this job as well from now on, and at once."""
        if job != self._job:
            self._job = job
            self._wake.set()

    def _run(self) -> None:
        while not self._ended:
            found = self._look(self._job)
            if not self._ended:
                self._tell(found)
                self._wake.wait(self._seconds)
                self._wake.clear()
