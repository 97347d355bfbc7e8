"""Rules of alerts, as they are asked for and told of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from .words import Time, says


class AlertRequest(BaseModel):
    """A rule to add."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, says("Its name: small letters, digits, '-', '_'; first a letter.", "on-call")]
    channel: Annotated[str, says("The way: webhook, slack or email.", "webhook")]
    target: Annotated[
        str, Field(max_length=4000), says("Where to: a URL, or an address.", "https://hooks.example/on-call")
    ]
    events: Annotated[
        list[str],
        Field(max_length=100),
        says("What it tells of; without any, what usually matters of jobs.", ["job-failed", "job-hung"]),
    ] = []
    project: Annotated[str, says("Only jobs of this project; empty: of all that the token opens.", "vision")] = ""
    jobs: Annotated[str, says("Only jobs whose name fits this pattern; empty: all.", "train_*")] = ""
    everyone: Annotated[bool, says("Whether jobs of others are told of, too.", False)] = False


class AlertRule(TypedDict):
    """A rule, without its secrets, and what became of what it told in the last week."""

    name: Annotated[str, says("Its name.", "on-call")]
    owner: Annotated[str, says("Whose it is.", "ada")]
    channel: Annotated[str, says("The way.", "webhook")]
    target: Annotated[
        str, says("Where to; of a URL, which may hold a secret, only the host.", "https://hooks.example/…")
    ]
    events: Annotated[list[str], says("What it tells of.", ["job-failed", "job-hung"])]
    project: Annotated[str, says("Only jobs of this project; empty: of all that its owner sees.", "vision")]
    jobs: Annotated[str, says("Only jobs whose name fits this pattern; empty: all.", "train_*")]
    everyone: Annotated[bool, says("Whether jobs of others are told of, too.", False)]
    created_at: Annotated[float, says(f"When it was made. {Time}", 1795190400.0)]
    waiting: Annotated[int, says("Deliveries that are on their way.", 1)]
    delivered: Annotated[int, says("Deliveries that were taken.", 12)]
    given_up: Annotated[int, says("Deliveries that were tried for a day in vain.", 0)]
    left_out: Annotated[int, says("Alerts that were not kept, since too many waited already.", 0)]
    last_tried_at: Annotated[
        float | None,
        says(
            f"When the one that has waited longest, or else the newest, was tried; null: never. {Time}", 1795190460.25
        ),
    ]
    last_answer: Annotated[str, says("What came of that.", "503 Service Unavailable")]
    next_try_at: Annotated[float | None, says(f"When it is tried again; null: not at all. {Time}", 1795190480.0)]


class MadeAlertRule(AlertRule):
    """A rule that was added just now."""

    secret: Annotated[str, says("By which its messages are signed, told this once; empty: they are not.", "whsec_…")]


class AlertRules(TypedDict):
    """Rules, by owner and name."""

    rules: list[AlertRule]


class AlertTest(TypedDict):
    """What came of a test."""

    delivered: Annotated[bool, says("Whether the receiver took it.", True)]
    answer: Annotated[str, says("What was answered, or why it was not taken.", "200 OK")]
