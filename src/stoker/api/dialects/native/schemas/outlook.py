"""What lies before a job: why it waits, when it will likely start and end, what would start it sooner, what it would cost."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .diagnosis import Diagnosis
from .jobs import STATES, Machines
from .words import Time, says

_T0 = 1795190400.0
_CHANCES = "One in ten is earlier than `low`, half before `middle`, nine in ten before `high`."


class Moments(TypedDict):
    """When something will likely be. One in ten is earlier than `low`, half before `middle`, nine in ten before `high`."""

    low: Annotated[float | None, says(f"Null: beyond what was looked at. {Time}", _T0 + 1200)]
    middle: Annotated[float | None, says(f"Null: beyond what was looked at. {Time}", _T0 + 1500)]
    high: Annotated[float | None, says(f"Null: beyond what was looked at. {Time}", _T0 + 3900)]


class Starts(TypedDict):
    """When a waiting job will likely get its machines."""

    at: Moments
    draws: Annotated[int, says("How often the future was played.", 40)]
    not_started: Annotated[int, says("In how many of them it had not started when they were broken off.", 0)]
    played_until: Annotated[float, says(f"Up to when each of them was played that had not started it. {Time}", _T0)]
    basis: Annotated[str, says("What the estimate rests on.", "played 40 times, going by how long jobs have run here")]
    waits_for: Annotated[
        str, says("The job whose end will likely let it in, as PROJECT/NAME; empty: no one of them.", "local/train_1")
    ]


class Lasts(TypedDict):
    """How long a job will likely hold its machines in all, in seconds."""

    low: Annotated[float | None, says("One in ten is shorter.", 3000.0)]
    middle: Annotated[float | None, says("Half are shorter.", 3600.0)]
    high: Annotated[float | None, says("Nine in ten are shorter.", 7200.0)]
    known_runs: Annotated[int, says("Ended jobs like it that this rests on; 0: its limit is taken as the most.", 34)]
    basis: Annotated[str, says("What the estimate rests on.", "from 34 runs like it")]


class Holder(TypedDict):
    """A running job that holds what another could use."""

    job: Annotated[str, says("PROJECT/NAME.", "local/train_1")]
    accelerators: Annotated[float, says("What it holds in all.", 4.0)]
    since: Annotated[float, says(Time, _T0 - 2100)]
    ends: Moments
    basis: Annotated[str, says("What the estimate of its end rests on.", "from 34 runs like it")]


class QuotaUse(TypedDict):
    """What a queue holds of the resource that it may not have more of. In devices or vCPUs."""

    queue: Annotated[str, says("The queue.", "vision")]
    resource: Annotated[str, says("An accelerator type, GPU for all, CPU; each also @REGION.", "GPU")]
    held: Annotated[float, says("What its jobs hold.", 8.0)]
    own: Annotated[float, says("What is its own; it may borrow more if it is of a cohort.", 8.0)]
    asked: Annotated[float, says("What this job asks for on top.", 4.0)]


class WhatIf(TypedDict):
    """Another way to ask for the same, which would start it clearly sooner."""

    change: Annotated[str, says("workers, accelerators, accelerator_type, preemptible or priority.", "workers")]
    asked: Annotated[str, says("What was asked for.", "4")]
    instead: Annotated[str, says("What would start sooner.", "2")]
    text: Annotated[str, says("The same in words.", "with 2 workers instead of 4")]
    starts: Starts
    sooner_seconds: Annotated[
        float | None, says("By how much the middle is sooner; null where the other is not known.", 10800.0)
    ]


class PastAttempt(TypedDict):
    """How an attempt ended."""

    number: Annotated[int, says("From 1.", 1)]
    cause: Annotated[str, says("docs/states.md lists them.", "REPLICA_CRASHED")]
    detail: Annotated[str, says("The cause in words.", "worker-0 was ended by signal 9")]


class Explanation(TypedDict):
    """Why a job waits and when it will likely start; since when it runs and when it will likely end; or how it ended."""

    name: Annotated[str, says("The job's name.", "train_2")]
    state: Annotated[str, says(STATES, "QUEUED")]
    code: Annotated[str, says("Why it waits, for programs; empty if it does not.", "NO_ROOM")]
    text: Annotated[
        str,
        says("Why it waits, or how it ended, in words.", "needs 1 × 4 NVIDIA_TESLA_T4, and not enough is free now"),
    ]
    action: Annotated[str, says("What would help.", "starts when enough of it is free")]
    held_by: Annotated[list[str], says("The jobs that hold what it could use, as PROJECT/NAME.", ["local/train_1"])]
    position: Annotated[int | None, says("Its place in the queue, 1 is next; null if it does not wait.", 2)]
    not_before: Annotated[
        float | None, says(f"When it may be tried again after a failure; null for at once. {Time}", None)
    ]
    attempts: list[PastAttempt]
    diagnosis: Annotated[
        Diagnosis | None,
        says("What its newest attempt died of; null while that lives, and if it has succeeded.", None),
    ]
    preemptions: Annotated[int, says("How often it was stopped for others.", 0)]
    queue: Annotated[str, says("The queue that it is in.", "default")]
    submitted_at: Annotated[float, says(Time, _T0 - 600)]
    running_since: Annotated[
        float | None, says(f"When its live attempt got its machines; null: none lives. {Time}", None)
    ]
    ended_at: Annotated[float | None, says(f"When it ended. {Time}", None)]
    as_of: Annotated[float, says(f"The moment of all that is said here of the future. {Time}", _T0)]
    story_position: Annotated[
        int | None, says("The position of the story up to which it is true; null: nothing is said of the future.", 412)
    ]
    ahead: Annotated[list[str], says("Who is before it, next first; ten at most. PROJECT/NAME.", ["local/train_3"])]
    holders: Annotated[list[Holder], says("Who holds what it could use; who ends first, first; twenty at most.", [])]
    quota: Annotated[QuotaUse | None, says("The quota that it waits for; null if it waits for none.", None)]
    starts: Annotated[
        Starts | None, says("When it will likely start; null if it does not wait, or too many ask just now.", None)
    ]
    what_if: Annotated[list[WhatIf], says("What would start it clearly sooner.", [])]
    lasts: Annotated[
        Lasts | None,
        says("How long it will likely hold its machines in all; null when it has ended, or is being stopped.", None),
    ]
    ends: Annotated[Moments | None, says(f"When it will likely end, if it runs. {_CHANCES}", None)]


class Place(TypedDict):
    """Where replicas of one role would go: to one node."""

    role: Annotated[str, says("chief, worker, ps or evaluator.", "worker")]
    replicas: Annotated[int, says("How many of them.", 2)]
    node: Annotated[str, says("The node.", "fake-t4-0")]
    devices: Annotated[list[str], says("The accelerators that would be theirs.", ["0", "1", "2", "3"])]


class Cost(TypedDict):
    """What the machines of a job cost on Google Cloud, on demand, before tax and discounts, in US dollars."""

    usd_per_hour: Annotated[float | None, says("All of them together; null where no price is known.", 2.94)]
    low_usd: Annotated[float | None, says("In all, if it runs as short as one in ten.", 2.45)]
    middle_usd: Annotated[float | None, says("In all, if it runs as long as half of its like.", 2.94)]
    high_usd: Annotated[float | None, says("In all, if it runs as long as nine in ten.", 5.88)]
    at_most_usd: Annotated[float | None, says("In all, if it runs until its limit.", 493.92)]
    price_as_of: Annotated[str | None, says("The date of the oldest price in it, or its catalog.", "2024-09-01")]
    notes: Annotated[list[str], says("Why there is no cost, or what to know about it.", [])]


class DryRun(TypedDict):
    """What would come of a job if it were submitted now. Nothing is written."""

    name: Annotated[str, says("The job's name.", "train_3f2a")]
    project: Annotated[str, says("Its project.", "local")]
    queue: Annotated[str, says("The queue that it would be in.", "default")]
    region: Annotated[str, says("Its region.", "us-central1")]
    priority: Annotated[int, says("0 to 1000, greater first.", 0)]
    preemptible: Annotated[bool, says("Whether it may be stopped for others.", False)]
    rehearsal: Annotated[bool, says("Whether it would run on virtual nodes made for it.", False)]
    machines: list[Machines]
    is_free: Annotated[bool, says("Whether it would start at once.", True)]
    reason: Annotated[str, says("Why it would wait; empty if it would not.", "")]
    places: Annotated[
        list[Place], says("Where it would go, now or when it will likely start; empty where that is not known.", [])
    ]
    ahead: Annotated[list[str], says("Who would be before it, next first; ten at most.", [])]
    starts: Annotated[Starts | None, says("When it would likely start; null if too many ask just now.", None)]
    lasts: Annotated[Lasts | None, says("How long it would likely run; null if too many ask just now.", None)]
    limit_seconds: Annotated[float, says("It is ended after running for so long.", 604800.0)]
    cost: Cost
    what_if: Annotated[list[WhatIf], says("What would start it clearly sooner.", [])]
