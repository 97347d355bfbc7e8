"""A job in Stoker's own words, in full and as a row of a list."""

from __future__ import annotations

from difflib import get_close_matches

from stoker.api.services import Services, site_rules
from stoker.api.stream import exit_code, reason, replicas_up
from stoker.core.errors import StokerError
from stoker.core.ids import replica_name, split_job_id
from stoker.core.job import Attempt, Job, Replica
from stoker.core.runtimes import choose
from stoker.core.spec import WHOLE_DEVICE_MILLI, Group, Machine
from stoker.core.states import FINAL_JOB_STATES, ReplicaState, Standing
from stoker.scheduling.doctor import is_held
from stoker.scheduling.ledger import Spent, ledger
from stoker.store.base import Listed

from .diagnosis import diagnosis_row
from .schemas.jobs import Attempt as AttemptRow
from .schemas.jobs import JobDetails, JobRow, Machines
from .schemas.jobs import Spent as SpentRow

SHARES = "a share of a GPU is counted, not enforced: the program sees the whole device and has to keep to its part of the memory"
MEMORY = "its memory is counted, not enforced: this server may make no control groups that hold a program to it"
MEMORY_ON_NODES = (
    "on machines of a cluster its memory limit counts when it is placed, and nothing there holds it to that"
)

_MOST_LOOKED_UP = 8
_MOST_NEIGHBOURS = 2000
_OF_PATTERNS = frozenset("*?[]{}%@$,")  # many files, or a name that is made later


def describe(site: Services, listed: Listed, attempts: list[Attempt]) -> JobDetails:
    """A job in full. `job_dir_path`: where programs, and users of this machine, find its files."""
    job = listed.job
    project, name = split_job_id(job.id)
    return {
        "id": job.id,
        "project": project,
        "name": name,
        "owner": job.owner,
        "labels": dict(job.labels),
        "queue": job.spec.queue,
        "priority": job.spec.priority,
        "preemptible": job.spec.preemptible,
        "resumable": job.is_resumable,
        "notes": _notes(site, job),
        "job_dir": job.spec.job_dir,
        "job_dir_path": _path(site, job.spec.job_dir),
        "rehearsal": job.spec.pool != "",
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "state": str(listed.state),
        "attempt": job.tries,
        "replicas": job.spec.replicas,
        "up": replicas_up(listed),
        "reason": reason(job),
        "message": job.message,
        "exit_code": exit_code(job, listed.attempt) if job.state in FINAL_JOB_STATES else None,
        "machines": [machines(group) for group in job.spec.groups],
        "spent_seconds": _spent(job, attempts, site.commands.clock.now()),
        "attempts": [_attempt(job, attempt) for attempt in attempts],
    }


def _idle_notes(site: Services, job: Job) -> list[str]:
    idle = site.idle().get(job.id)
    if idle is None:
        return []
    now = site.commands.clock.now()
    text = f"its GPUs have been idle for {(now - idle.since) / 60:.0f} minutes"
    if idle.stops_at is None:
        return [text]
    name = split_job_id(job.id)[1]
    return [f"{text}; it is stopped in {max(0.0, idle.stops_at - now) / 60:.0f} minutes unless: stoker keep {name} 2h"]


def _notes(site: Services, job: Job) -> list[str]:
    """What the user should know: limits that are none, and what is not as it was asked for."""
    machines = [group.machine for group in job.spec.groups]
    is_limited, holds = any(machine.memory_limit_bytes for machine in machines), site.isolation.holds_memory
    return [
        *[SHARES] * any(map(is_share, machines)),
        *[MEMORY] * (is_limited and not holds),
        *[MEMORY_ON_NODES] * (is_limited and holds and "ray" in site.engines),
        *_runtime_notes(site, job),
        *_idle_notes(site, job),
        *_missing_notes(site, job),
    ]


def _missing_notes(site: Services, job: Job) -> list[str]:
    """Of a job that has not begun: paths of buckets among its arguments that are not there, most often misspelt."""
    if job.started_at is not None or job.state in FINAL_JOB_STATES:
        return []
    program, own = job.spec.program, job.spec.job_dir.rstrip("/")
    words = dict.fromkeys(w.rpartition("=")[2] for w in (*program.command, *program.args) if "gs://" in w)
    plain = [word for word in words if word.startswith("gs://") and not set(word) & _OF_PATTERNS]
    named = [word for word in plain if not (own and f"{word}/".startswith(f"{own}/"))]
    return [note for word in named[:_MOST_LOOKED_UP] if (note := _missing(site, word))]


def _missing(site: Services, uri: str) -> str:
    """A note that a path of a bucket is not there, with the nearest that is; empty where it is, or where nobody knows."""
    try:
        place = site.files.place(uri)
        if place.root is None or place.root.is_file(place.name) or place.root.is_folder(place.name):
            return ""
        above, _, last = place.name.rstrip("/").rpartition("/")
        beside = [entry.name for entry in place.root.entries(above)] if last else []
        near = get_close_matches(last, beside, 1) if len(beside) <= _MOST_NEIGHBOURS else []
    except (StokerError, OSError, ValueError):
        return ""  # the program is told by its own library
    folder = uri.rstrip("/").rpartition("/")[0]
    return f"{uri} is not there yet" + (f"; did you mean {folder}/{near[0]}?" if near else "")


def _runtime_notes(site: Services, job: Job) -> list[str]:
    """Notes that a runtime version was asked for, and something else runs it."""
    program = job.spec.program
    if not program.runtime:
        return []
    chosen = choose(program.runtime, program.python, site_rules(site).runtimes)
    if program.environment.python:
        return [chosen.note] if chosen.note else []
    return [f"{chosen.problem}; it runs on Stoker's own. What would do: {chosen.fix}"] if chosen.problem else []


def row(listed: Listed) -> JobRow:
    """A job in a list."""
    job, replicas = listed.job, listed.attempt.replicas if listed.attempt is not None else ()
    return {
        "name": split_job_id(job.id)[1],
        "owner": job.owner,
        "state": str(listed.state),
        "queue": job.spec.queue,
        "preemptible": job.spec.preemptible,
        "accelerators": number(job.spec.accelerator_milli),
        "replicas": job.spec.replicas,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "reason": reason(job),
        "message": job.message,
        "held_until": max(filter(None, (_held_until(job, r) for r in replicas)), default=None),
        "rehearsal": job.spec.pool != "",
    }


def number(milli: int) -> float:
    """A number of devices as one would write it: whole ones as a whole number."""
    return milli // WHOLE_DEVICE_MILLI if milli % WHOLE_DEVICE_MILLI == 0 else milli / WHOLE_DEVICE_MILLI


def is_share(machine: Machine) -> bool:
    """Whether it has a part of a device."""
    return 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI


def _path(site: Services, uri: str) -> str:
    """Where a job's files are; empty if that cannot be told (its bucket is mapped to another place by now)."""
    try:
        return site.files.program_path(uri) if uri else ""
    except StokerError:
        return ""


def machines(group: Group) -> Machines:
    """The machines of one role."""
    return {
        "role": group.role,
        "count": group.count,
        "machine_type": group.machine.type,
        "vcpus": group.machine.vcpus,
        "memory_gb": group.machine.memory_gb,
        "accelerator": group.machine.accelerator,
        "accelerators": number(group.machine.accelerator_milli),
    }


def _held_until(job: Job, replica: Replica) -> float | None:
    """Until when its place is kept after a failure."""
    return replica.standing_at + job.spec.limits.hold_seconds if is_held(replica) else None


def _spent(job: Job, attempts: list[Attempt], now: float) -> SpentRow:
    found = ledger(job, attempts, now)
    return {
        "starting": found[Spent.STARTING],
        "productive": found[Spent.PRODUCTIVE],
        "lost": found[Spent.LOST],
        "hanging": found[Spent.HANGING],
        "held": found[Spent.HELD],
        "stopping": found[Spent.STOPPING],
    }


def _attempt(job: Job, attempt: Attempt) -> AttemptRow:
    places = {(p.role, p.index): p for p in attempt.placements}
    return {
        "id": attempt.id,
        "number": attempt.number,
        "state": str(attempt.state),
        "cause": str(attempt.cause) if attempt.cause else "",
        "detail": attempt.detail,
        "placed_at": attempt.placed_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "diagnosis": diagnosis_row(job, attempt),
        "replicas": [
            {
                "name": replica_name(r.role, r.index),
                "state": str(r.seen),
                "exit_code": r.exit_code,
                "node": places[r.role, r.index].node,
                "devices": list(places[r.role, r.index].devices),
                "address": r.addresses[0] if r.addresses else "",
                "message": r.message,
                "held_until": _held_until(job, r),
                "quiet_since": r.standing_at if r.seen is ReplicaState.UP and r.standing is Standing.QUIET else None,
            }
            for r in attempt.replicas
        ],
    }
