"""The translation of a line, the program's or the service's own, to a LogEntry; and what a filter can ask of one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.api.filters import Comparison, Filter, compare, comparisons, possible_range, predicate, simplify
from stoker.core.convention import Convention, task_name
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import CUSTOM_JOB_PREFIX, split_job_id
from stoker.core.job import Job
from stoker.store.log_file import LogLine

from .service_lines import ServiceLine
from .severity import SEVERITIES, Said, read_line
from .times import nanoseconds, timestamp

RESOURCE_TYPE = "ml_job"
JOB_ID = "resource.labels.job_id"
SERVICE = "service"
_TIMES = ("timestamp", "receiveTimestamp")
_EXACT = (JOB_ID, "insertId", "labels.ml.googleapis.com/job_id", "resource.labels.project_id")


@dataclass(frozen=True, slots=True)
class Subject:
    """The job that lines are about, as readers of logs know it."""

    job: str  # its id in Stoker
    project: str
    name: str
    tasks: Mapping[str, str]  # replica → what it is called here

    @staticmethod
    def of(job: Job, asked: Collection[str] = ()) -> Subject:
        """The subject that a job is. `asked`: names in a question; one with two names goes by that which is among them."""
        project, name = split_job_id(job.id)
        convention = job.spec.convention
        names = (name.removeprefix(CUSTOM_JOB_PREFIX), name) if convention is Convention.VERTEX else (name,)
        places = [(group.role, index) for group in job.spec.groups for index in range(group.count)]
        return Subject(
            job=job.id,
            project=project,
            name=next((name for name in names if name in asked), names[0]),
            tasks={f"{role}-{index}": task_name(convention, role, index) for role, index in places},
        )

    @property
    def values(self) -> Mapping[str, str]:
        """The fields in which all of its entries are alike."""
        return {
            "resource.type": RESOURCE_TYPE,
            "resource.labels.project_id": self.project,
            JOB_ID: self.name,
            "labels.ml.googleapis.com/job_id": self.name,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """One line, ready to be judged and shown."""

    moment: int  # microseconds since the epoch
    insert_id: str  # orders what has one moment
    job: str
    task: str
    said: Said
    created: float
    attempt: str = ""

    @property
    def position(self) -> tuple[int, str, str]:
        """Where it stands among all lines."""
        return self.moment, self.insert_id, self.job


def program_line(subject: Subject, line: LogLine) -> Told:
    """A replica's line."""
    task = subject.tasks.get(line.replica, line.replica)
    said = read_line(line.stream, line.text)
    attempt = line.attempt.rpartition(".")[2]
    return Told(line.moment, f"p{line.offset:016d}", subject.job, task, said, line.time, attempt)


def service_line(subject: Subject, number: int, line: ServiceLine) -> Told:
    """A line of the service's own, by its number among them."""
    said = Said(line.severity, line.text)
    return Told(line.moment, f"s{number:016d}", subject.job, SERVICE, said, line.moment / 1e6)


def entry(subject: Subject, told: Told) -> dict[str, Any]:
    """The LogEntry."""
    time, said = timestamp(told.moment), told.said
    labels = {"ml.googleapis.com/job_id": subject.name, "ml.googleapis.com/task_name": told.task}
    if told.attempt:
        labels["stoker/attempt"] = told.attempt
    return {
        "insertId": told.insert_id,
        "timestamp": time,
        "receiveTimestamp": time,
        "severity": said.severity,
        "logName": f"projects/{subject.project}/logs/{told.task}",
        "resource": {
            "type": RESOURCE_TYPE,
            "labels": {"job_id": subject.name, "project_id": subject.project, "task_name": told.task},
        },
        "labels": labels,
        "jsonPayload": {
            **said.fields,
            "message": said.message,
            "levelname": said.severity,
            "created": told.created,
        },
    }


def check(filter: Filter) -> None:
    """Raise BadSpec for a time or a severity that is none."""
    for comparison in comparisons(filter):
        _test_of(comparison)


def moments(filter: Filter) -> tuple[int, int | None]:
    """The first and the last moment that a line can have which passes; None: there is no last."""
    low, high = possible_range(filter, "timestamp", nanoseconds)
    return max(0, -(-low // 1000)) if low is not None else 0, high // 1000 if high is not None else None


def judge(filter: Filter, subject: Subject, *, to_the_end: bool = False) -> Callable[[Told], bool]:
    """Whether a line of a job passes. `to_the_end`: however late its time is."""
    values = subject.values

    def known(comparison: Comparison) -> bool | None:
        field = comparison.field
        if field in values:
            return _test_of_text(comparison)(values[field])
        if to_the_end and field == "timestamp" and comparison.op in ("<", "<="):
            return True
        return None

    return predicate(simplify(filter, known), _test_of)


def _test_of(comparison: Comparison) -> Callable[[Told], bool]:
    """What a comparison asks of a line."""
    op, field = comparison.op, comparison.field
    if field in _TIMES:
        time = nanoseconds(comparison)
        return lambda told: compare(told.moment * 1000, op, time)
    if field == "severity":
        number = _severity(comparison)
        return lambda told: compare(SEVERITIES[told.said.severity], op, number)
    is_true = _test_of_text(comparison)
    text_of = _TEXTS.get(field)
    if text_of is not None:
        return lambda told: is_true(text_of(told))
    if comparison.path[0] == "jsonPayload" and len(comparison.path) == 2:
        name = comparison.path[1]
        return lambda told: name in told.said.fields and is_true(str(told.said.fields[name]))
    return lambda told: False  # there is no such field


_TEXTS: Mapping[str, Callable[[Told], str]] = {
    "insertId": lambda told: told.insert_id,
    "logName": lambda told: f"projects/{told.job.partition('/')[0]}/logs/{told.task}",
    "resource.labels.task_name": lambda told: told.task,
    "labels.ml.googleapis.com/task_name": lambda told: told.task,
    "labels.stoker/attempt": lambda told: told.attempt,
    "textPayload": lambda told: told.said.message,
    "jsonPayload.message": lambda told: told.said.message,
    "jsonPayload.levelname": lambda told: told.said.severity,
}


def _test_of_text(comparison: Comparison) -> Callable[[str], bool]:
    """`:` is "contains", `:*` "is there"; the case of letters counts in names only."""
    op, want = comparison.op, comparison.value
    if op == ":":
        part = "" if want == "*" else want.casefold()
        return lambda have: have != "" and part in have.casefold()
    if comparison.field in _EXACT:
        return lambda have: compare(have, op, want)
    want = want.casefold()
    return lambda have: compare(have.casefold(), op, want)


def _severity(comparison: Comparison) -> int:
    """The number of a severity, by its name or its number. Raises BadSpec."""
    value = comparison.value.upper()
    if value in SEVERITIES:
        return SEVERITIES[value]
    if value.isdecimal() and len(value) <= 4:
        return int(value)
    problem = f"severity: {comparison.value[:80]!r} is not known; there are {', '.join(SEVERITIES)}"
    raise BadSpec([Violation("filter", problem)])
