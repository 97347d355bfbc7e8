"""Carries orders to the engines. What an order did is seen at the next look; only a refusal is noted here, as it is seen here."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from stoker.core.changes import Change, Note, Order, Start
from stoker.core.errors import StokerError, Unavailable
from stoker.core.images import StandIns
from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, LaunchFile, ReplicaLimits, Surroundings
from stoker.core.mounts import mounted_buckets
from stoker.core.spec import JobSpec
from stoker.core.states import ReplicaState
from stoker.core.world import World
from stoker.engines.base import Engine, Request
from stoker.kinds.base import Kind
from stoker.store.files import Files

_log = logging.getLogger("stoker.loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtimes:
    """Which Python a job runs on: `runtimeVersion` → interpreter, image → interpreter and entry point."""

    default: str
    by_version: Mapping[str, str]
    images: StandIns = field(default_factory=dict)

    def python(self, version: str) -> str:
        """The interpreter for a runtime version."""
        return self.by_version.get(version, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enact:
    """Gives orders to engines."""

    engines: Mapping[str, Engine]
    kinds: Mapping[str, Kind]
    files: Files
    runtimes: Runtimes
    limits: ReplicaLimits = field(default_factory=ReplicaLimits)

    def __call__(self, orders: Sequence[Order], world: World, now: float) -> list[Change]:
        """Carry out the orders. Returns what was seen in doing so: replicas that could not be started."""
        notes: list[Change] = []
        for order in orders:
            attempt = world.attempts[order.attempt]
            engine = self.engines.get(attempt.engine)
            if engine is None:
                continue  # its engine is not configured now; the attempt waits for it to come back
            try:
                if isinstance(order, Start):
                    _start(engine, self.request(world.jobs[attempt.job], attempt))
                else:
                    engine.stop(order.attempt, force=order.force)
            except Exception as error:  # one attempt's trouble is not the others'
                if not isinstance(error, StokerError | OSError):
                    _log.exception("an order about %s failed", order.attempt)
                if isinstance(order, Start):
                    notes += self._given_up(engine, attempt, error, now)
        return notes

    def _given_up(self, engine: Engine, attempt: Attempt, error: Exception, now: float) -> list[Change]:
        """A start that failed, maybe half done: let nothing more start, and note as failed what never did.

        What has started is stopped like that of any other attempt, and ends when it is seen to have ended.
        """
        try:
            engine.stop(attempt.id, force=False)
            seen = engine.poll({attempt.id: attempt}).get(attempt.id, ())
        except Exception as unreachable:
            _log.error("%s cannot be given up yet: %s", attempt.id, unreachable)
            return []  # it is started, or given up, in the next round
        never = {(s.role, s.index) for s in seen if s.state is ReplicaState.LOST}
        return [note for note in _failed(attempt, error, now) if (note.role, note.index) in never]

    def request(self, job: Job, attempt: Attempt) -> Request:
        """What the engine is told for this attempt."""
        return self.engines[attempt.engine].render(self.launch(job, attempt))

    def launch(self, job: Job, attempt: Attempt) -> Launch:
        """The launch of this attempt: the job's kind and the site's surroundings."""
        program, opened = job.spec.program, self.files.of(job.owner)
        files = [
            LaunchFile(number=n, name=PurePosixPath(uri).name, uri=uri, stamp=opened.stamp(uri))
            for n, uri in enumerate(launch_files(job))
        ]
        buckets = _buckets(self.files, job.spec)
        job_dir = self.files.program_path(job.spec.job_dir) if job.spec.job_dir else ""
        surroundings = Surroundings(
            python=self.runtimes.python(program.runtime),
            images=self.runtimes.images,
            buckets=buckets,
            folders=self.folders(job.spec),
            job_dir=job_dir,
            packages=tuple(files[: len(program.packages)]),
            source=tuple(files[len(program.packages) :]),
            limits=self.limits,
        )
        return self.kinds[job.spec.kind].launch(job, attempt, surroundings)

    def folders(self, spec: JobSpec) -> tuple[str, ...]:
        """The folders of this machine that a job names, and that its programs may write to."""
        return tuple(launch_folders(self.files, spec).values())


def launch_folders(files: Files, spec: JobSpec) -> dict[str, str]:
    """URI → folder of this machine, by their numbers in the launch: buckets that it mounts, and its job directory."""
    job_dir = files.program_path(spec.job_dir) if spec.job_dir else ""
    buckets = {f"gs://{bucket}": folder for bucket, folder in _buckets(files, spec).items()}
    return {**buckets, **({spec.job_dir: job_dir} if job_dir.startswith("/") else {})}


def _buckets(files: Files, spec: JobSpec) -> dict[str, str]:
    """The buckets that a job mounts and that are folders here: name → folder."""
    paths = {bucket: files.place(f"gs://{bucket}").path for bucket in sorted(mounted_buckets(spec))}
    return {bucket: path for bucket, path in paths.items() if path}


def launch_files(job: Job) -> list[str]:
    """The URIs of the files that every replica fetches, by their numbers in the launch."""
    program = job.spec.program
    return [*program.packages, *([program.source] if program.source else [])]


def _start(engine: Engine, request: Request) -> None:
    """What keeps an engine from starting now, such as a full disk, is no failure of the job: the order is given again."""
    try:
        engine.start(request)
    except Unavailable as error:
        _log.error("%s cannot be started yet: %s", request.attempt, error)


def _failed(attempt: Attempt, error: Exception, now: float) -> list[Note]:
    return [
        Note(
            attempt=attempt.id,
            role=replica.role,
            index=replica.index,
            seen=ReplicaState.FAILED,
            at=now,
            message=error.message if isinstance(error, StokerError) else f"{type(error).__name__}: {error}",
        )
        for replica in attempt.replicas
        if replica.seen is ReplicaState.NOTHING
    ]
