"""A job in the hands of a Python program: `stoker.submit`, `stoker.get` and `stoker.jobs` give one out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from stoker.core.errors import BadSpec, NotFound, Violation

from . import arguments as a
from .answers import Artifact, Explanation, LogLine, Metrics, read
from .client import Client
from .connection import settings, the_client
from .job_failed import JobFailed

FINAL_STATES = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


class Job:
    """A job. It keeps nothing but its name: every question goes to the server.

    Every method raises NotFound if there is no such job any more, Unavailable if the server does not answer, and
    Unauthenticated if the token is wrong. All of them are StokerErrors.
    """

    def __init__(self, name: str, project: str, client: Client) -> None:
        """Use `stoker.get(name)`, which also looks whether it is there."""
        self.name = name
        self.project = project
        self._client = client

    def __repr__(self) -> str:
        return f"Job({self.name!r}, project={self.project!r})"

    @property
    def state(self) -> str:
        """QUEUED, PREPARING, RUNNING, SUCCEEDED, FAILED, CANCELLING or CANCELLED, as of now."""
        return str(self.describe()["state"])

    @property
    def is_done(self) -> bool:
        """Whether it has ended, however it did."""
        return self.state in FINAL_STATES

    def wait(self, timeout_seconds: float | None = None, *, check: bool = True) -> str:
        """Wait until it has ended; returns SUCCEEDED, FAILED or CANCELLED. A server that is restarted meanwhile is waited for.

        Raises JobFailed if it did not succeed, unless `check` is False, and TimeoutError after `timeout_seconds`; it looks
        once at least, so `wait(0)` asks whether it has ended. Whoever stops waiting (Ctrl-C, too) leaves the job running.
        """
        for event in self._events(timeout_seconds):
            if event["kind"] == "end":
                if check and event["state"] != "SUCCEEDED":
                    raise JobFailed(self.name, event["state"], event["exit_code"], event["message"])
                return str(event["state"])
        raise TimeoutError(f"{self.name} has not ended within {timeout_seconds} s; it goes on")

    def _events(self, seconds: float | None) -> Iterator[dict[str, Any]]:
        """What happens to it for so long. The first look is in no hurry: how it ended is told, however little time there is."""
        if seconds is None:
            return self._client.stream(self.project, self.name, logs=False)
        limit = a.argument("timeout_seconds", seconds, a.a_number)
        look = self._client.stream(self.project, self.name, logs=False, follow=False)
        return chain(look, self._client.stream(self.project, self.name, logs=False, seconds=limit))

    def logs(self, *, follow: bool = False, replica: str = "", stream: str = "", after: int = 0) -> Iterator[LogLine]:
        """What it printed, line by line, all replicas in the order in which it arrived.

        `follow`: wait for more until it has ended; no line is lost or told twice when the server is restarted. `replica`: only
        this one, such as worker-0. `stream`: only out, err, or service (what Stoker says). `after`: go on after a line's
        sequence. Raises BadSpec for a replica or a stream that it does not have.
        """
        only = {"replica": a.argument("replica", replica, a.a_text), "stream": a.argument("stream", stream, a.a_text)}
        after = a.argument("after", after, a.a_count)
        for event in self._client.logs(self.project, self.name, follow=follow, after=after, **only):
            if event["kind"] == "log":
                yield read(LogLine, event)

    def metrics(self) -> Metrics:
        """What it took so far: its time in seconds by what it did, its machines' hours, what those cost where that is known."""
        return read(Metrics, self._client.metrics(self.project, self.name))

    def training(self, *, attempt: int = 0) -> dict[str, Any]:
        """How it trains, as docs/api.md describes `Training`: rates, what it waits for, its values such as loss, who is slow.

        `attempt`: of this one; 0: of the newest that has told of steps.
        """
        number = a.argument("attempt", attempt, a.a_count)
        found: dict[str, Any] = self._client.steps(self.project, self.name, attempt=number)
        return found

    def explain(self) -> Explanation:
        """Why it waits: a code, words, what would help, who holds what it could use, when it will start. Or how it ended."""
        return Explanation.of(self._client.explain(self.project, self.name))

    def describe(self) -> dict[str, Any]:
        """All there is to say of it, as docs/api.md describes `JobDetails`: machines, attempts, replicas, times."""
        found: dict[str, Any] = self._client.details(self.project, self.name)
        return found

    def artifacts(self) -> list[Artifact]:
        """The files below its directory (`job_dir`), by name; of a job without one there are none."""
        return [read(Artifact, found) for found in self._client.artifacts(self.project, self.name)]

    def download(self, name: str, to: str | Path = ".") -> Path:
        """Download a file below its directory, such as `model/weights.h5`; `to`: a folder or a file's path. Returns the path.

        Raises NotFound if there is no such file, BadSpec if it cannot be written there, or if the directory is a plain path of
        the server's machine.
        """
        target = a.argument("to", to, a.a_path)
        leaf = Path(a.argument("name", name, a.a_text)).name
        if not leaf:
            raise BadSpec([Violation("name", f"{name!r} names no file")], fix="job.artifacts() lists the files")
        job_dir = str(self.describe()["job_dir"]).rstrip("/")
        if not job_dir:
            raise NotFound(f"{self.name} has no directory", fix="submit it with job_dir='gs://BUCKET/FOLDER'")
        if "://" not in job_dir:
            raise BadSpec([Violation("job_dir", f"{job_dir} is a path of the server's machine: read the file there")])
        target = target / leaf if os.path.isdir(target) else target
        self._client.save(f"{job_dir}/{name}", target)
        return target

    def cancel(self) -> None:
        """Want it to stop; returns at once. Of no effect on a job that has ended."""
        self._client.cancel(self.project, self.name)


def get(name: str, *, project: str = "") -> Job:
    """The job of that name. `project`: without it, the one of the settings. Raises NotFound."""
    name, project = a.argument("name", name, a.a_text), _project(project)
    client = the_client()
    client.details(project, name)
    return Job(name, project, client)


def jobs(*, project: str = "", limit: int = 20) -> list[Job]:
    """The newest jobs of a project, newest first, `limit` at most."""
    project, limit = _project(project), a.argument("limit", limit, a.a_count)
    client = the_client()
    rows = islice(client.all_jobs(project, page=max(1, min(limit, 100))), limit)
    return [Job(row["name"], project, client) for row in rows]


def _project(name: str) -> str:
    """The project that was named, or the setting's."""
    return a.argument("project", name, a.a_text) or str(settings()["project"])
