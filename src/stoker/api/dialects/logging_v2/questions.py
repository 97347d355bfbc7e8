"""What entries.list is asked: the body, understood. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from stoker.api.filters import Filter, possible_values, read_filter
from stoker.api.proto_json import INT32, STRING, ListOf, Message
from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import CUSTOM_JOB_PREFIX, JOB_NAME, PROJECT_NAME, job_id

from .entries import JOB_ID, check

LARGEST_PAGE = 1000
USUAL_PAGE = 50
MOST_JOBS = 20

LIST_LOG_ENTRIES_REQUEST = Message(
    "ListLogEntriesRequest",
    {
        "resourceNames": ListOf(STRING),
        "projectIds": ListOf(STRING),
        "filter": STRING,
        "orderBy": STRING,
        "pageSize": INT32,
        "pageToken": STRING,
    },
)
_ORDERS = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}
_PARENT = re.compile(r"projects/([^/]+)(?:/locations/.*)?")

Position = tuple[int, str, str]
"""Where a line stands: its moment, its insertId, its job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is wanted."""

    jobs: tuple[str, ...]  # ids; some may not exist
    names: frozenset[str]  # by which the jobs are asked for; a Vertex job has two
    filter: Filter
    newest_first: bool
    size: int
    after: Position | None
    mark: str  # a token goes with the same question only

    def token(self, position: Position) -> str:
        """The pageToken to go on behind a line."""
        return base64.urlsafe_b64encode(json.dumps([self.mark, *position]).encode()).decode()


def read_question(body: Any) -> Question:
    """Understand a ListLogEntriesRequest. Raises BadSpec with every violation."""
    violations: list[Violation] = []
    read = LIST_LOG_ENTRIES_REQUEST.read(body, "", violations)
    projects = _projects(read, violations)
    order = " ".join(read.get("orderBy", "").split())
    if order not in _ORDERS:
        violations.append(Violation("order_by", f"{order[:80]!r} is not known: 'timestamp asc' or 'timestamp desc'"))
    size = read.get("pageSize", 0)
    if size < 0:
        violations.append(Violation("page_size", f"{size} is under 1"))
    if violations:
        raise BadSpec(violations)
    filter = read_filter(read.get("filter", ""))
    check(filter)
    mark = _mark(sorted(projects), read.get("filter", ""), str(_ORDERS[order]))
    names = _names(filter)
    return Question(
        jobs=_jobs(names, projects),
        names=names,
        filter=filter,
        newest_first=_ORDERS[order],
        size=min(size or USUAL_PAGE, LARGEST_PAGE),
        after=_read_token(read["pageToken"], mark) if read.get("pageToken") else None,
        mark=mark,
    )


def _projects(read: dict[str, Any], violations: list[Violation]) -> set[str]:
    found: set[str] = set(read.get("projectIds", ()))
    for number, name in enumerate(read.get("resourceNames", ())):
        parent = _PARENT.fullmatch(name)
        if parent is None:
            problem = f"{name[:200]!r} is not projects/PROJECT: here only projects have logs"
            violations.append(Violation(f"resource_names[{number}]", problem))
        else:
            found.add(parent[1])
    for project in sorted(found):
        if not PROJECT_NAME.fullmatch(project):
            violations.append(Violation("resource_names", f"{project[:80]!r} cannot be a project's id"))
    if not found and not violations:
        violations.append(Violation("resource_names", "a project is needed: projects/PROJECT"))
    return found


def _names(filter: Filter) -> frozenset[str]:
    """What the jobs whose lines can pass are called there. Raises BadSpec if that may be any."""
    names = possible_values(filter, JOB_ID)
    if names is None:
        problem = f'the job must be named, since lines are kept by job: add {JOB_ID}="JOB" to the filter'
        raise BadSpec([Violation("filter", problem)])
    return names


def _jobs(names: frozenset[str], projects: set[str]) -> tuple[str, ...]:
    """The ids of all jobs that may be meant, each once. Raises BadSpec if they are too many."""
    known = sorted({CUSTOM_JOB_PREFIX + name if name.isdecimal() else name for name in names})
    jobs = tuple(job_id(project, name) for project in sorted(projects) for name in known if JOB_NAME.fullmatch(name))
    if len(jobs) > MOST_JOBS:
        raise BadSpec([Violation("filter", f"{len(jobs)} jobs at once, of at most {MOST_JOBS}")])
    return jobs


def _mark(projects: list[str], *texts: str) -> str:
    return hashlib.sha256(json.dumps([projects, *texts]).encode()).hexdigest()[:12]


def _read_token(token: str, mark: str) -> Position:
    try:
        found, moment, insert_id, job = json.loads(base64.b64decode(token, b"-_", validate=True))
        if found == mark and type(moment) is int and 0 <= moment < 1 << 62 and isinstance(insert_id, str):
            return moment, insert_id, str(job)
    except (ValueError, TypeError, RecursionError):
        pass
    raise BadSpec([Violation("page_token", "not a token that this server gave for this filter and order")])
