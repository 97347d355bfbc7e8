"""Alerts: what somebody is to be told, the rules by which it is found out who, and what became of telling them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that happened, in words."""

    event: str  # a name of alerts/events.py
    subject: str  # what it is about: a job, a node, a project's month; repeats are known by it
    at: float  # when it happened, in seconds since the epoch
    title: str  # a line
    text: str = ""  # what there is to say beside
    job: str = ""  # the id of the job that it concerns; empty: it concerns the site
    owner: str = ""  # whose job it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Who is told what, and how."""

    n: int = 0  # its number, never given again; 0 until it is kept
    owner: str
    name: str  # one of a kind among those of its owner
    channel: str  # a member of the open set `channels`
    target: str = field(repr=False)  # a URL or an address, as the channel takes it; a URL may hold a secret
    events: tuple[str, ...]
    project: str = ""  # only jobs of this project; empty: of all that its owner sees
    jobs: str = ""  # a pattern of jobs' names, such as train_*; empty: all
    everyone: bool = False  # jobs of others, too
    secret: str = field(default="", repr=False)  # by which what is sent is signed; empty: it is not
    created_at: float = 0.0
    since: int = 0  # the position of the story when it was made: what was before is not told


class DeliveryState(StrEnum):
    """How far a delivery has come."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    GIVEN_UP = "GIVEN_UP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One alert on its way to one receiver. It keeps its id over all tries, so that a receiver can tell repeats."""

    n: int
    id: str
    rule: int
    alert: Alert
    state: DeliveryState = DeliveryState.PENDING
    created_at: float
    next_at: float  # not tried before
    tries: int = 0
    tried_at: float | None = None
    answer: str = ""  # what came of the last try


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Up to where alerts were made."""

    position: int  # of the story
    marks: frozenset[str] = frozenset()  # the conditions that held when they were last looked at
