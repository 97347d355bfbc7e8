"""The ledgers of jobs: worked out while a job lives, written down once when it has ended, and never changed from then on.

What is written lies in `goodput.db` of the home, beside the database of jobs, which has the truth: without the file ledgers are
worked out again, as long as the jobs' logs are there.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stoker.clock import Clock
from stoker.core.changes import Credit, Note
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.node import Node
from stoker.core.states import JobState
from stoker.scheduling.usage import is_definite
from stoker.store.base import Store
from stoker.store.logs import STEPS, Logs

from .goodput import Entry, Ledger, Phase, Taken, ledger, total
from .live_world import LiveWorld
from .replica_lives import lives_of
from .training_steps import progress_of, resumes_of, saves_of

SETTLE_SECONDS = 10.0
"""So long after its end a job's last lines have come, or will not."""

LIVE_SECONDS = 30.0
"""The ledger of a job that lives is worked out anew after so long."""

LEAST_CREDIT_SECONDS = 1.0

_FIRST_LOOK_SECONDS = 30 * 86400.0
_MOST_AT_ONCE, _BREATH_SECONDS = 25, 1.0  # of many, such as at the first start: others want the processor, too
_ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledgers (
    job TEXT PRIMARY KEY, project TEXT NOT NULL, queue TEXT NOT NULL, owner TEXT NOT NULL, ended_at REAL NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ledgers_by_end ON ledgers (ended_at);
"""

_log = logging.getLogger("stoker.insight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The ledger of a job, with what it is asked by."""

    job: str
    queue: str
    owner: str
    ledger: Ledger

    @property
    def project(self) -> str:
        """The job's."""
        return split_job_id(self.job)[0]


class Ledgers:
    """One site's. Any thread may ask."""

    def __init__(self, path: Path, store: Store, logs: Logs, live: LiveWorld, clock: Clock) -> None:
        """`path`: the file. It is made when the first job has ended."""
        self._path = path
        self._store = store
        self._logs = logs
        self._live = live
        self._clock = clock
        self._settled_until: float | None = None
        self._living: dict[str, tuple[float, int, Ledger]] = {}  # when it was worked out, of which revision
        self._totals: dict[tuple[str, str, Phase], float] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledgers", daemon=True)

    def start(self) -> None:
        """Begin to write down what ends."""
        self._thread.start()

    def end(self) -> None:
        """Write no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def of(self, job: Job) -> Ledger:
        """The ledger of a job: as it was written down, or as it stands now."""
        for kept in self._written("job = ?", [job.id]):
            return kept.ledger
        return self._worked_out(job)

    def since(self, since: float, until: float) -> list[Kept]:
        """The ledgers of all jobs that held anything in a while. An attempt that reaches beyond it counts in proportion."""
        found = list(self._written("ended_at >= ?", [since]))
        known = {kept.job for kept in found}
        for job in {job.id: job for job, _ in self._store.held_since(since) if job.id not in known}.values():
            made = self._worked_out(job)
            found.append(Kept(job=job.id, queue=job.spec.queue, owner=job.owner, ledger=made))
        now = self._clock.now()
        cut = (replace(kept, ledger=_within(kept.ledger, since, until, now)) for kept in found)
        return [kept for kept in cut if kept.ledger.entries]

    def totals(self) -> Mapping[tuple[str, str, Phase], float]:
        """Of all jobs whose ledgers were written down: seconds by project, weight (accelerator or machine) and phase."""
        with self._lock:
            if self._totals is None:
                self._totals = defaultdict(float)
                for kept in self._written("1", []):
                    _count(self._totals, kept)
            return dict(self._totals)

    def settle(self) -> int:
        """Write down the ledgers of all jobs that have ended; returns of how many."""
        now = self._clock.now()
        due = self._due(now)
        for count, job in enumerate(due, 1):
            if self._ended.is_set():
                return count - 1
            self._write(job)
            if count % _MOST_AT_ONCE == 0 and self._thread.is_alive():
                self._ended.wait(_BREATH_SECONDS)
        self._settled_until = now - 6 * SETTLE_SECONDS
        return len(due)

    def _due(self, now: float) -> list[Job]:
        """The jobs that have ended and have no ledger written down."""
        since = now - _FIRST_LOOK_SECONDS if self._settled_until is None else self._settled_until
        ended = self._store.ended(since, 100_000)
        with self._connected() as db:
            known = {job for (job,) in db.execute("SELECT job FROM ledgers WHERE ended_at >= ?", [since - 1.0])}
        return [job for job in ended if job.id not in known and (job.ended_at or now) <= now - SETTLE_SECONDS]

    def credit(self) -> None:
        """Give back to who has a share what jobs that live have lost by the site's fault, once for each second."""
        with self._live.look() as world:
            again = [job for job in world.jobs.values() if job.tries > 1 and not job.spec.pool]
        for job in again:
            entries = self._worked_out(job).entries
            lost = [entry for entry in entries if entry.fault_seconds and entry.ended_at is not None]
            whole = sum(max(entry.accelerators, 1e-9) for entry in entries if entry.attempt == 1)
            seconds = (
                sum(max(entry.accelerators, 1e-9) * entry.fault_seconds for entry in lost) / whole if whole else 0.0
            )
            more = seconds - job.credited_seconds
            if more >= LEAST_CREDIT_SECONDS:
                until = max(entry.ended_at for entry in lost if entry.ended_at is not None)
                now = self._clock.now()
                self._store.commit([Credit(job=job.id, seconds=more, until=until, at=now)], by="goodput")

    def _run(self) -> None:
        while not self._ended.wait(SETTLE_SECONDS):
            try:
                self.credit()
                self.settle()
            except Exception:  # a full disk, a database that is away
                _log.exception("ledgers cannot be written down now")

    def _write(self, job: Job) -> None:
        kept = Kept(job=job.id, queue=job.spec.queue, owner=job.owner, ledger=self._make(job))
        row = [job.id, kept.project, kept.queue, kept.owner, job.ended_at, json.dumps(_told(kept.ledger))]
        with self._connected() as db:
            is_new = db.execute("INSERT INTO ledgers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount
        with self._lock:
            self._living.pop(job.id, None)
            if self._totals is not None and is_new:
                _count(self._totals, kept)

    def _written(self, condition: str, values: Sequence[object]) -> Iterator[Kept]:
        if not self._path.exists():
            return
        with self._connected() as db:
            rows = db.execute(f"SELECT job, queue, owner, body FROM ledgers WHERE {condition}", values).fetchall()
        for job, queue, owner, body in rows:
            yield Kept(job=job, queue=queue, owner=owner, ledger=_read(json.loads(body)))

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        is_new = not self._path.exists()
        if is_new:
            self._path.touch(mode=0o600)
        with closing(sqlite3.connect(self._path, timeout=10)) as db, db:
            if is_new:
                db.executescript(f"PRAGMA journal_mode = WAL; {_SCHEMA}")
            yield db

    def _worked_out(self, job: Job) -> Ledger:
        now = self._clock.now()
        with self._lock:
            found = self._living.get(job.id)
        if found is not None and found[0] <= now < found[0] + LIVE_SECONDS and found[1] == job.revision:
            return found[2]
        made = self._make(job)
        with self._lock:
            self._living = {name: known for name, known in self._living.items() if now < known[0] + LIVE_SECONDS}
            self._living[job.id] = now, job.revision, made
        return made

    def _make(self, job: Job) -> Ledger:
        with self._live.look() as world:
            nodes = dict(world.nodes)
        attempts = self._store.attempts(job.id)
        notes = (line.change for line in self._store.story(job.id) if isinstance(line.change, Note))
        lives = lives_of(attempts, notes)
        told = lines_by_attempt(self._logs, attempts, job.id)
        taken = [
            Taken(
                attempt=attempt,
                lives=lives[attempt.id],
                windows={progress.replica: progress.windows for progress in progress_of(lines)},
                resumed=resumes_of(lines),
                saves=saves_of(lines).count,
                devices=_devices(job, attempt, nodes),
                follows="chief-0" if any(place.role == "ps" for place in attempt.placements) else "",
            )
            for attempt in attempts
            for lines in [told.get(attempt.number, [])]
        ]
        goes_on = job.state not in _ENDED
        return ledger(taken, self._clock.now(), goes_on=goes_on, is_resumable=job.is_resumable)


def lines_by_attempt(
    logs: Logs, attempts: Collection[Attempt], job: str, stream: str = STEPS
) -> dict[int, list[tuple[str, str]]]:
    """What the replicas of a job have told in a stream that is no output: by attempt, (replica, line) in order."""
    numbers = {attempt.id: attempt.number for attempt in attempts}
    found: dict[int, list[tuple[str, str]]] = {}
    for line in logs.aside(job, stream):
        if line.attempt in numbers:
            found.setdefault(numbers[line.attempt], []).append((line.replica, line.text))
    return found


def _devices(job: Job, attempt: Attempt, nodes: Mapping[str, Node]) -> dict[str, tuple[str, float]]:
    """The type and number of the accelerators of each replica."""
    machines = {group.role: group.machine for group in job.spec.groups}
    found = {}
    for place in attempt.placements:
        machine, node = machines[place.role], nodes.get(place.node)
        kind = machine.accelerator
        if machine.accelerator_milli and not is_definite(kind):
            kind = node.accelerator if node is not None else kind
        found[f"{place.role}-{place.index}"] = (
            kind if machine.accelerator_milli else "",
            machine.accelerator_milli / 1000,
        )
    return found


def _within(found: Ledger, since: float, until: float, now: float) -> Ledger:
    """The part of a ledger that lies in a while."""
    entries = []
    for entry in found.entries:
        ended = now if entry.ended_at is None else entry.ended_at
        inside = min(ended, until) - max(entry.began_at, since)
        part = min(1.0, inside / (ended - entry.began_at)) if ended > entry.began_at else 0.0
        if part > 0:
            entries.append(
                replace(
                    entry,
                    seconds={phase: part * seconds for phase, seconds in entry.seconds.items()},
                    usd=None if entry.usd is None else part * entry.usd,
                    fault_seconds=part * entry.fault_seconds,
                )
            )
    return replace(found, entries=entries)


def _count(totals: dict[tuple[str, str, Phase], float], kept: Kept) -> None:
    for phase, seconds in total(kept.ledger.entries, kept.ledger.weight).items():
        totals[kept.project, kept.ledger.weight, phase] += seconds


def _told(found: Ledger) -> dict[str, Any]:
    entries = [
        {**asdict(entry), "seconds": {str(phase): round(s, 6) for phase, s in entry.seconds.items() if s}}
        for entry in found.entries
    ]
    return {"entries": entries, "knows_lost": found.knows_lost, "weight": found.weight}


def _read(told: Mapping[str, Any]) -> Ledger:
    entries = [
        Entry(**{**entry, "seconds": {phase: entry["seconds"].get(phase, 0.0) for phase in Phase}})
        for entry in told["entries"]
    ]
    return Ledger(entries=entries, is_final=True, knows_lost=told["knows_lost"], weight=told["weight"])
