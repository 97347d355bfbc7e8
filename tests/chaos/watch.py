"""The invariants. An observer of its own, which believes nothing but the lines that are written and the machines themselves.

It has its own tables of what is legal and its own account of who holds what, so that a bug in the code under test is no bug
here. The numbers are those of the list in docs/faults.md.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.changes import (
    Cancel,
    Change,
    CordonNode,
    MoveAttempt,
    MoveJob,
    NodeGone,
    NodeSeen,
    Note,
    Open,
    Submit,
    job_of,
)
from stoker.core.ids import job_of_attempt
from stoker.core.job import Attempt, Job
from stoker.core.site import Site
from stoker.core.spec import WHOLE_DEVICE_MILLI
from stoker.core.world import World, apply
from stoker.store.rows import decode_change

from .cluster import Cluster

JOB_MOVES = {
    "QUEUED": {"ACTIVE", "CANCELLED", "FAILED"},
    "ACTIVE": {"QUEUED", "SUCCEEDED", "FAILED", "CANCELLED"},
}
ATTEMPT_MOVES = {
    "PLACED": {"STARTING", "STOPPING"},
    "STARTING": {"RUNNING", "STOPPING"},
    "RUNNING": {"STOPPING"},
    "STOPPING": {"ENDED"},
}
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
COUNTED = {"REPLICA_CRASHED", "REPLICA_LOST", "HUNG"}
FATES = {
    "COMPLETED": {"SUCCEEDED"},
    "REPLICA_FAILED": {"FAILED"},
    "LAUNCH_FAILED": {"FAILED"},
    "PREEMPTED": {"QUEUED"},
    "DRAINED": {"QUEUED"},
    "NODE_LOST": {"QUEUED"},
    "CANCELLED": {"CANCELLED"},
    "TIMED_OUT": {"CANCELLED"},
}
"""What becomes of a job by the cause of its attempt's end, where that is certain."""

PATIENT_ROUNDS = 3
"""So many rounds after a wish was written, it has to show."""


class Violated(BaseException):
    """An invariant does not hold. Nothing under test may catch it."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        super().__init__(f"invariant {name}: {what}")

    def __reduce__(self) -> tuple[type[Violated], tuple[str, str]]:
        """It goes from one process to another."""
        return Violated, (self.name, self.what)


@dataclass(slots=True)
class Watched:
    """What is known of one job."""

    job: Job
    state: str = "QUEUED"
    tries: int = 0
    is_cancelled: bool = False
    cancelled_at_round: int = 0
    failures: int = 0  # attempts whose end counts against the retries
    live: str = ""  # its attempt that has not ended
    cause: str = ""  # of the end of its last attempt


@dataclass(slots=True)
class Watch:
    """Follows what is written and looks at the machines."""

    path: Path
    cluster: Cluster
    site: Site
    tell: Callable[[str], None]
    rounds: int = 0  # of the loop, whole ones
    cordons: list[tuple[str, float]] = field(default_factory=list)  # by Stoker itself
    jobs: dict[str, Watched] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)  # of attempts
    world: World = field(default_factory=World)
    position: int = 0
    checks: int = 0
    _db: sqlite3.Connection | None = None
    _version: int = -1

    def look(self) -> None:
        """Check everything that can be checked at any moment. Raises Violated."""
        self.checks += 1
        if self._has_changed():
            self._read()
            self._held_once()
            self._quotas()
        self._machines()
        self._wishes()

    def holdings(self) -> list[tuple[object, ...]]:
        """What is held of which device, as it is written."""
        return [] if self._db is None else self._db.execute("SELECT * FROM holdings").fetchall()

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()

    def _has_changed(self) -> bool:
        if self._db is None:
            if not self.path.exists():
                return False
            self._db = sqlite3.connect(self.path)
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        changed, self._version = version != self._version, version
        return changed

    def _read(self) -> None:
        assert self._db is not None
        try:
            rows = self._db.execute("SELECT n, by, kind, body FROM story WHERE n > ? ORDER BY n", (self.position,))
        except sqlite3.OperationalError:
            return  # the tables are not made yet
        for n, by, kind, body in rows.fetchall():
            if n != self.position + 1 or not by:
                raise Violated("14 audit", f"line {n} by {by!r} follows line {self.position}")
            self.position = n
            change = decode_change(kind, body)
            self.tell(f"#{n} {by}: {_short(change)}")
            self._follow(change)
            apply(self.world, change)
            self.world.position = n

    def _follow(self, change: Change) -> None:
        match change:
            case Submit():
                if change.job.id in self.jobs:
                    raise Violated("3 epochs", f"{change.job.id} is submitted twice")
                self.jobs[change.job.id] = Watched(change.job)
            case Open():
                self._opened(change.attempt)
            case MoveAttempt():
                self._attempt_moved(change)
            case MoveJob():
                self._job_moved(change)
            case Cancel():
                known = self.jobs[change.job]
                if known.state not in FINAL and not known.is_cancelled:
                    known.is_cancelled, known.cancelled_at_round = True, self.rounds
            case CordonNode():
                self._cordoned(change)
            case Note():
                if self.states[change.attempt] == "ENDED":
                    raise Violated("4 old epoch", f"a note about {change.attempt}, which has ended, was written")
            case _:
                pass

    def _opened(self, attempt: Attempt) -> None:
        known = self.jobs[attempt.job]
        if known.state != "QUEUED":
            raise Violated("7 legal moves", f"{attempt.id} is opened while its job is {known.state}")
        if known.live:
            raise Violated("2 one live lease", f"{attempt.id} is opened while {known.live} lives")
        if attempt.number != known.tries + 1:
            raise Violated("3 epochs", f"{attempt.id} follows try {known.tries}")
        if known.is_cancelled:
            raise Violated("12 cancelled", f"{attempt.id} is opened though its job is cancelled")
        for group in known.job.spec.groups:
            places = [place for place in attempt.placements if place.role == group.role]
            if [len(place.devices) for place in places] != [group.machine.accelerators] * group.count:
                raise Violated("6 gang", f"{attempt.id} has not all the places of {group.role}")
        known.tries, known.live, known.state = attempt.number, attempt.id, "ACTIVE"
        self.attempts[attempt.id], self.states[attempt.id] = attempt, "PLACED"

    def _attempt_moved(self, move: MoveAttempt) -> None:
        state = self.states[move.attempt]
        if state != move.before or move.after not in ATTEMPT_MOVES.get(state, ()):
            raise Violated("7 legal moves", f"{move.attempt} is {state} and goes from {move.before} to {move.after}")
        self.states[move.attempt] = str(move.after)
        known = self.jobs[job_of_attempt(move.attempt)]
        known.cause = str(move.cause or known.cause)
        if move.after == "ENDED" and known.cause in COUNTED:
            known.failures += 1
            if known.failures > known.job.spec.retry.whole_job + 1:
                raise Violated("retries are bounded", f"{move.attempt} is failure {known.failures} of its job")
        if move.after == "ENDED":
            known.live = ""

    def _job_moved(self, move: MoveJob) -> None:
        known = self.jobs[move.job]
        if known.state != move.before or move.after not in JOB_MOVES.get(known.state, ()):
            raise Violated("7 legal moves", f"{move.job} is {known.state} and goes from {move.before} to {move.after}")
        if known.live:
            raise Violated("5 devices of ended jobs", f"{move.job} is {move.after}, and {known.live} still lives")
        if known.state == "ACTIVE" and move.after not in FATES.get(known.cause, {move.after}):
            raise Violated("7 legal moves", f"{move.job} is {move.after} after {known.cause}")
        known.state = str(move.after)

    def _cordoned(self, change: CordonNode) -> None:
        """16: never by itself more than a tenth of a pool an hour, and never the last."""
        if change.cordon.by != "stoker":
            return
        pool = [n.name for n in self.cluster.nodes if n.accelerator == self.world.nodes[change.node].accelerator]
        self.cordons.append((change.node, change.cordon.at))
        lately = {node for node, at in self.cordons if node in pool and 0.0 <= change.cordon.at - at < 3600.0}
        if len(lately) > max(1, len(pool) // 10):
            raise Violated("16 cordon cap", f"{sorted(lately)} of {sorted(pool)} are cordoned within an hour")

    def _held_once(self) -> None:
        held: dict[tuple[str, str], int] = {}
        for known in self.jobs.values():
            if known.live:
                machines = {group.role: group.machine for group in known.job.spec.groups}
                for place in self.attempts[known.live].placements:
                    for device in place.devices:
                        key = (place.node, device)
                        held[key] = held.get(key, 0) + machines[place.role].milli_of_each
        over = {device: milli for device, milli in held.items() if milli > WHOLE_DEVICE_MILLI}
        if over:
            raise Violated("1 devices held once", f"{over} are held in the books")

    def _quotas(self) -> None:
        """9: a cohort never holds more than its queues have of their own, all together."""
        nominal = sum(queue.quotas["GPU"].nominal_milli for queue in self.site.queues.values() if queue.quotas)
        held = sum(known.job.spec.accelerator_milli for known in self.jobs.values() if known.live)
        if nominal and held > nominal:
            raise Violated("9 usage", f"{held} thousandths of GPUs are held under quotas of {nominal}")

    def _wishes(self) -> None:
        for known in self.jobs.values():
            if known.is_cancelled and known.live and self.rounds >= known.cancelled_at_round + PATIENT_ROUNDS:
                if self.states[known.live] != "STOPPING":
                    raise Violated("12 cancelled", f"{known.live} goes on though its job was cancelled")

    def _machines(self) -> None:
        used: dict[tuple[str, str], int] = {}
        running: set[tuple[str, str]] = set()
        now = self.cluster.now()
        for program in self.cluster.programs:
            if program.stands_still_until > now:
                continue  # with its machine: it does nothing now, and whether it may go on shows when it wakes
            key = (job_of_attempt(program.attempt), program.replica)
            if key in running:
                raise Violated("2 one live lease", f"{key} runs twice")
            running.add(key)
            if self.states.get(program.attempt, "ENDED") == "ENDED":
                raise Violated("15 orphans", f"{program.attempt}/{program.replica} runs, and its attempt has ended")
            for device in program.devices:
                used[device] = used.get(device, 0) + program.milli
        over = {device: milli for device, milli in used.items() if milli > WHOLE_DEVICE_MILLI}
        if over:
            raise Violated("1 devices held once", f"{over} are used by programs")


def _short(change: Change) -> str:
    match change:
        case MoveAttempt():
            return f"{change.attempt} {change.before} → {change.after} {change.cause or ''}".rstrip()
        case MoveJob():
            return f"{change.job} {change.before} → {change.after}"
        case Note():
            return f"{change.attempt}/{change.role}-{change.index} seen {change.seen}"
        case NodeSeen():
            return f"node {change.node.name} {change.node.state}"
        case NodeGone():
            return f"node {change.name} is gone"
        case _:
            return f"{type(change).__name__} {job_of(change)}"
