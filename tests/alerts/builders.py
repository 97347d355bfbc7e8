"""Alerts in a line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stoker.alerts.channel import Message, NotDelivered
from stoker.alerts.reach import Reach
from stoker.core.alerts import Alert, Rule
from stoker.core.changes import Change, CordonNode, MoveJob, Submit
from stoker.core.node import Cordon
from stoker.core.states import JobState
from tests.builders import a_job


def an_alert(
    event: str = "job-failed", job: str = "p/j", *, at: float = 1_000_000.0, owner: str = "ada", **more: Any
) -> Alert:
    """A job of Ada's has failed."""
    return Alert(event=event, subject=job, at=at, title=f"{job} has failed", job=job, owner=owner, **more)


def a_rule(name: str = "r", owner: str = "ada", *events: str, **more: Any) -> Rule:
    """A rule of Ada's that tells of jobs that fail."""
    known = {"channel": "fake", "target": "there", "events": events or ("job-failed",)}
    return Rule(owner=owner, name=name, **{**known, **more})


def an_end(name: str, owner: str = "ada", after: JobState = JobState.FAILED, message: str = "exit 3") -> list[Change]:
    """A job comes, and ends."""
    end = MoveJob(job=f"p/{name}", before=JobState.QUEUED, after=after, at=5.0, message=message)
    return [Submit(job=a_job(name, owner=owner)), end]


def a_cordon(node: str = "n0", why: str = "new driver") -> CordonNode:
    """A node is cordoned."""
    return CordonNode(node=node, cordon=Cordon(why=why, by="root", at=5.0))


def reach_of(**users: Reach | None) -> Callable[[str], Reach | None]:
    """How far users see; others see nothing, but Ada is a user of all projects."""
    known: dict[str, Reach | None] = {"ada": Reach(user="ada"), "root": Reach(user="root", is_admin=True), **users}
    return known.get


@dataclass
class FakeChannel:
    """Takes messages; at first it fails as often as it is told."""

    failures: int = 0
    is_signed: bool = False
    sent: list[Message] = field(default_factory=list)

    def check(self, target: str) -> None:
        """Anything goes."""

    def shown(self, target: str) -> str:
        """All of it."""
        return target

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        """Take it, or not."""
        if self.failures > 0:
            self.failures -= 1
            raise NotDelivered("503 away")
        self.sent.append(message)
        return "200 OK"

    @property
    def subjects(self) -> list[str]:
        """What the messages were about."""
        return [message.alert.subject for message in self.sent]
