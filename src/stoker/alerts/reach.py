"""Whom a rule may tell what: as far as its owner sees, now and not when the rule was made."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stoker.core.alerts import Alert, Rule
from stoker.core.ids import split_job_id
from stoker.store.tokens import Token

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


def reach_by(tokens: Iterable[Token], admins: Container[str], user: str, now: float) -> Reach | None:
    """How far a user sees by the tokens that there are now. `admins`: who needs none of these."""
    if user in admins:
        return Reach(user=user, is_admin=True)
    for token in tokens:
        if token.name == user and not token.is_for_metrics and (token.expires_at is None or now < token.expires_at):
            return Reach(user=user, is_admin=token.is_admin, projects=frozenset(token.projects))
    return None


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
