"""Whom a rule may tell what: as far as its owner sees, now and not when the rule was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stoker.core.alerts import Alert, Rule
from stoker.core.ids import split_job_id

from .events import BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a user sees. No projects: all of them."""

    user: str
    is_admin: bool = False
    projects: frozenset[str] = frozenset()

    def sees(self, project: str) -> bool:
        """Whether a project is there for them."""
        return not self.projects or project in self.projects


ReachOf = Callable[[str], Reach | None]
"""How far a user sees now; None: nothing at all, for their token was revoked or has expired."""


def is_told(rule: Rule, alert: Alert, reach: Reach | None) -> bool:
    """Whether a rule tells its owner of this."""
    if reach is None or alert.event not in rule.events:
        return False
    if not alert.job:
        return reach.is_admin
    project, name = split_job_id(alert.job)
    return (
        (reach.is_admin or not BY_NAME[alert.event].of_site)
        and reach.sees(project)
        and rule.project in ("", project)
        and (rule.everyone or alert.owner == rule.owner)
        and (not rule.jobs or fnmatchcase(name, rule.jobs))
    )
