"""What a token opens: one table over all paths. What no row names is for admins, so a new route is closed until it has one.

| Who | What |
| an admin | everything |
| who scrapes metrics | /metrics, and nothing else |
| a user | jobs of every project and all buckets, and nothing of the server itself |
| a user of some projects | their jobs, and the buckets that the token names; all others are not there |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from stoker.core.errors import Forbidden, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who asks, and what they may see. No projects: all of them, and every bucket."""

    user: str
    is_admin: bool = False
    is_for_metrics: bool = False
    projects: frozenset[str] = frozenset()
    buckets: frozenset[str] = frozenset()

    def sees(self, project: str) -> bool:
        """Whether a project is there for them."""
        return not self.projects or project in self.projects

    def check_project(self, project: str) -> None:
        """Raise NotFound for a project that is not there for them: whether it is there for others, they are not told."""
        if not self.sees(project):
            raise NotFound(
                f"no project {project[:80]!r} for this token", fix=f"it opens {', '.join(sorted(self.projects))}"
            )


class Opens(Enum):
    """What a path opens, and so who may ask for it."""

    ALL = auto()  # what it tells is sorted by project behind the door
    PROJECT = auto()  # one project, named in the path
    BUCKETS = auto()  # the files behind the door open what the token names


METRICS_PATH = "/metrics"
_READING = ("GET", "HEAD")
TABLE: tuple[tuple[re.Pattern[str], tuple[str, ...], Opens], ...] = (
    (
        re.compile(r"/stoker/v1/(status|openapi\.json|nodes|gpus|overview|pools|costs|goodput|queue|jobs)"),
        _READING,
        Opens.ALL,
    ),
    (re.compile(r"/stoker/v1/alerts(/[^/]+)?"), (), Opens.ALL),
    (re.compile(r"/stoker/v1/projects/(?P<project>[^/]+)/.*", re.DOTALL), (), Opens.PROJECT),
    (re.compile(r"/v1/projects/(?P<project>[^/]+)/.*", re.DOTALL), (), Opens.PROJECT),
    (re.compile(r"/v1/projects/(?P<project>[^/]+):[A-Za-z]+"), (), Opens.PROJECT),
    (re.compile(r"/v2/entries:list"), ("POST",), Opens.ALL),
    (re.compile(r"/stoker/v1/files/.*", re.DOTALL), (), Opens.BUCKETS),
    (re.compile(r"(/resumable)?(/upload|/download)?/storage/v1/b(/.*)?", re.DOTALL), (), Opens.BUCKETS),
    (re.compile(r"/batch/storage/v1"), ("POST",), Opens.BUCKETS),
)
"""Path, methods (none: all of them), and what it opens, for who is not an admin. The first that fits counts."""


def check_path(access: Access, method: str, path: str) -> None:
    """Raise Forbidden for what only admins may do, NotFound for a project that is not there for them."""
    if access.is_admin or (access.is_for_metrics and path == METRICS_PATH and method in _READING):
        return
    if access.is_for_metrics:
        raise Forbidden(f"this token opens {METRICS_PATH} alone", fix="use another one for anything else")
    for pattern, methods, opens in TABLE:
        found = pattern.fullmatch(path)
        if found is not None and (not methods or method in methods):
            if opens is Opens.PROJECT:
                access.check_project(found["project"])
            return
    raise Forbidden(f"{method} {path[:200]} is for admins of this server", fix="ask one, or use a token with --admin")
