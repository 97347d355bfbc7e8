"""The events that alerts tell of, as one table; and how those of jobs and nodes are read from the story. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from stoker.core.alerts import Alert
from stoker.core.changes import Change, CordonNode, MoveAttempt, MoveJob
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import job_of_attempt
from stoker.core.states import FINAL_JOB_STATES, Cause, JobState
from stoker.store.base import Line

LONGEST_TEXT = 2000

_HAS = {
    JobState.SUCCEEDED: "has succeeded",
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "was cancelled",
}

Owner = Callable[[str], str]
"""Whose a job is, by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that may be told of."""

    name: str
    what: str  # when it is told, for people
    of_site: bool = False  # it concerns the whole site: for admins
    by_default: bool = False  # told to who names no events
    found: Callable[[Change], str | None] | None = (
        None  # in a line of the story: what to say; None: by alerts/conditions.py
    )


def _failed(change: Change) -> str | None:
    return change.message if isinstance(change, MoveJob) and change.after is JobState.FAILED else None


def _ended(change: Change) -> str | None:
    return change.message if isinstance(change, MoveJob) and change.after in FINAL_JOB_STATES else None


def _hung(change: Change) -> str | None:
    return change.detail if isinstance(change, MoveAttempt) and change.cause is Cause.HUNG else None


def _cordoned(change: Change) -> str | None:
    if not isinstance(change, CordonNode):
        return None
    why = change.cordon.why or "no reason was given"
    return f"{why} (by {change.cordon.by})"


EVENTS: tuple[Event, ...] = (
    Event(
        name="job-failed",
        what="A job has failed for good: it is not tried again.",
        by_default=True,
        found=_failed,
    ),
    Event(name="job-ended", what="A job has ended: it succeeded, failed or was cancelled.", found=_ended),
    Event(
        name="job-hung",
        what="A job stood still for `hang_seconds`, and its attempt is ended for that.",
        by_default=True,
        found=_hung,
    ),
    Event(
        name="slow-replica",
        what="The replicas of a job wait for one of them that takes longer by 25 % or more of its own.",
        by_default=True,
    ),
    Event(
        name="idle-gpu",
        what="The GPUs of a job did nothing for `idle_seconds`.",
        by_default=True,
    ),
    Event(
        name="node-cordoned",
        what="A node, or a pool of the site file, is given no new work: by an admin, its health, or after failures.",
        of_site=True,
        found=_cordoned,
    ),
    Event(name="budget-80", what="A project has spent 80 % of its budget of the month.", of_site=True),
    Event(name="budget-100", what="A project has spent its budget of the month.", of_site=True),
    Event(
        name="disk-low",
        what="The disk of the home has less than 5 % free, or less than twice `reserve_mb`.",
        of_site=True,
    ),
    Event(
        name="leader-changed",
        what="A server has taken the lead: another one, or the same after a restart.",
        of_site=True,
    ),
)
"""Where several fit one line of the story, the first that a rule names is told, and no other."""

BY_NAME: Mapping[str, Event] = {event.name: event for event in EVENTS}


def check_events(asked: Iterable[str], *, is_admin: bool) -> tuple[str, ...]:
    """The events of a rule; none asked for: those that are told by default. Raises BadSpec."""
    found = tuple(dict.fromkeys(asked)) or tuple(event.name for event in EVENTS if event.by_default)
    violations = []
    for name in found:
        if name not in BY_NAME:
            near = get_close_matches(name, BY_NAME, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY_NAME)}"
            violations.append(Violation("events", f"{name[:80]!r} is no event; {hint}"))
        elif BY_NAME[name].of_site and not is_admin:
            violations.append(Violation("events", f"{name} concerns the whole site, and is told to admins alone"))
    if violations:
        raise BadSpec(violations)
    return found


def alerts_of(line: Line, owner: Owner) -> Iterator[Alert]:
    """What a line of the story is to be told as, what says most first. `owner` is asked only if there is something."""
    for event in EVENTS:
        text = event.found(line.change) if event.found is not None else None
        if text is not None:
            yield _alert(event.name, line, text, owner)


def _alert(event: str, line: Line, text: str, owner: Owner) -> Alert:
    text = text[:LONGEST_TEXT].encode("utf-8", "replace").decode()  # half a character cannot be written down
    match line.change:
        case MoveJob() as change:
            title = f"{change.job} {_HAS[change.after]}"
            return Alert(
                event=event, subject=line.job, at=line.at, title=title, text=text, job=line.job, owner=owner(line.job)
            )
        case MoveAttempt() as change:
            job = job_of_attempt(change.attempt)
            title = f"{job} hangs"
            return Alert(event=event, subject=job, at=line.at, title=title, text=text, job=job, owner=owner(job))
        case CordonNode() as change:
            kind = "Pool " if change.node.startswith("pool:") else "Node "
            node = change.node.removeprefix("pool:")
            return Alert(event=event, subject=change.node, at=line.at, title=f"{kind}{node} is cordoned", text=text)
        case _:
            raise AssertionError(f"{event} has no words for {type(line.change).__name__}")
