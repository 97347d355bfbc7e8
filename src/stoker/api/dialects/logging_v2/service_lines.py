"""What Stoker itself has to say about a job, told line by line from its story (contract 3.6: task_name `service`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stoker.core.changes import Ask, Cancel, Change, Explain, MoveAttempt, MoveJob, Note, Open, OrderMachines, Submit
from stoker.core.convention import task_name
from stoker.core.ids import replica_id
from stoker.core.job import Attempt, Job, Ordered
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState, Standing
from stoker.scheduling.explain import wanted
from stoker.scheduling.failures import FAILURES
from stoker.store.base import Line

_MOST_NODES = 5
_WHY: Mapping[Cause, str] = {
    Cause.COMPLETED: "the program has completed",
    Cause.REPLICA_FAILED: "a replica has failed",
    Cause.REPLICA_CRASHED: "a replica has crashed, which may pass",
    Cause.LAUNCH_FAILED: "a replica could not be started",
    Cause.HUNG: "a replica hung",
    Cause.REPLICA_LOST: "a replica was lost",
    Cause.NODE_LOST: "a node was lost",
    Cause.PREEMPTED: "its resources go to another job",
    Cause.DRAINED: "a node is being emptied",
    Cause.TIMED_OUT: "it has run for as long as it may",
    Cause.WAITED_OUT: "it has waited for as long as it may",
    Cause.CANCELLED: "it was cancelled",
}


@dataclass(frozen=True, slots=True)
class ServiceLine:
    """One line. Moments (microseconds since the epoch) grow from line to line, as those of the program's lines do."""

    moment: int
    severity: str
    text: str


def service_lines(job: Job, story: Iterable[Line]) -> list[ServiceLine]:
    """The lines of a job. What is told stays as it is when the story goes on."""
    told: list[ServiceLine] = []
    for line in _news(story):
        for severity, text in _words(job, line.change):
            moment = max(int(line.at * 1e6), told[-1].moment + 1 if told else 1)
            told.append(ServiceLine(moment, severity, text))
    return told


def _news(story: Iterable[Line]) -> Iterator[Line]:
    """The story without notes that say nothing new: a replica is still up, or ends while all of them are to."""
    restarts: dict[str, int] = {}  # how often each replica was said to be started again
    is_stopping = False
    for line in story:
        match line.change:
            case MoveAttempt(after=after):
                is_stopping = after is AttemptState.STOPPING
            case Note() if is_stopping:
                continue
            case Note(seen=ReplicaState.UP, standing=Standing.GOING) as note:
                replica = replica_id(note.attempt, note.role, note.index)
                if note.restarts <= restarts.get(replica, 0):
                    continue
                restarts[replica] = note.restarts
        yield line


def _words(job: Job, change: Change) -> Iterator[tuple[str, str]]:
    """What is to be said about one change: severity and text."""
    match change:
        case Submit():
            yield "INFO", f"The job's requirements have been checked: it needs {wanted(job.spec)}."
            yield "INFO", "The job is queued."
        case Explain(reason=reason):
            yield "INFO", f"The job waits: {reason.text}."
        case OrderMachines(ordered=ordered):
            yield "INFO", _ordered(ordered)
        case Open(attempt=attempt):
            yield "INFO", _provisioned(attempt)
        case MoveAttempt(after=AttemptState.STARTING):
            yield "INFO", "Waiting for the program to start."
        case MoveAttempt(after=AttemptState.RUNNING):
            count = job.spec.replicas
            yield "INFO", f"The job is running: {f'all {count} replicas are' if count > 1 else 'its replica is'} up."
        case MoveAttempt(after=AttemptState.STOPPING, cause=cause):
            yield "INFO", f"Teardown has begun: {_WHY[cause] if cause else 'it is to stop'}."
        case MoveAttempt(after=AttemptState.ENDED):
            yield "INFO", "Teardown is done."
        case Ask(cause=cause):
            yield "WARNING", f"The scheduler stops this attempt: {_WHY[cause]}."
        case Cancel(why=why):
            yield "INFO", f"Cancellation was asked for. {why}".rstrip()
        case Note():
            yield from _replica_words(job, change)
        case MoveJob(after=JobState.QUEUED, message=message):
            yield "WARNING", f"The job is queued again, to be tried once more. {message}".rstrip()
        case MoveJob(after=JobState.SUCCEEDED):
            yield "INFO", "The job has succeeded."
        case MoveJob(after=JobState.FAILED, message=message):
            yield "ERROR", f"The job has failed. {message}".rstrip()
        case MoveJob(after=JobState.CANCELLED, message=message):
            yield "INFO", f"The job was cancelled. {message}".rstrip()


def _ordered(ordered: Ordered | None) -> str:
    if ordered is None:
        return "The machines that were ordered are not needed any more, or do not come."
    wanted = " and ".join(f"{count} × {pool}" for pool, count in ordered.machines)
    return f"Machines are ordered{f' in {ordered.zone}' if ordered.zone else ''}: {wanted}."


def _provisioned(attempt: Attempt) -> str:
    nodes = list(dict.fromkeys(place.node for place in attempt.placements))
    shown = ", ".join(nodes[:_MOST_NODES]) + (f" and {len(nodes) - _MOST_NODES} more" if nodes[_MOST_NODES:] else "")
    count = len(attempt.placements)
    return f"Being provisioned, attempt {attempt.number}: {count} {'replicas' if count > 1 else 'replica'} on {shown}."


def _replica_words(job: Job, note: Note) -> Iterator[tuple[str, str]]:
    who = task_name(job.spec.convention, note.role, note.index)
    if note.seen is ReplicaState.FAILED and note.exit_code is not None:
        yield "WARNING", f"{who} exited with status {note.exit_code}."
        yield from _sign_words(who, note)
    elif note.seen is ReplicaState.FAILED:
        yield from _sign_words(who, note)
    elif note.seen is ReplicaState.LOST:
        yield "WARNING", f"{who} was lost: {note.message or 'it answers no more'}."
    elif note.standing is Standing.HELD:
        yield "WARNING", f"{who} exited with status {note.exit_code}; its place is kept for whoever looks."
        yield from _sign_words(who, note)
    elif note.standing is Standing.QUIET:
        yield "WARNING", f"{who} stands still: {note.evidence}."
    elif note.seen is ReplicaState.UP:
        yield "WARNING", f"{who} is started again in place ({note.restarts})."


def _sign_words(who: str, note: Note) -> Iterator[tuple[str, str]]:
    """What a sign means, the line that bears it, and what to do."""
    known = FAILURES.get(note.sign)
    if known is not None:
        yield "ERROR", f"{who}: {known.title}: {note.evidence}"
        yield "INFO", f"What to do: {known.fix}."
