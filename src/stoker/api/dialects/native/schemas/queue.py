"""The queue as it is shown: the queues of the site, and who waits."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .jobs import Reason
from .words import Time, says


class Holding(TypedDict):
    """What a queue holds of a resource, and what it may."""

    resource: Annotated[
        str,
        says(
            "A type of accelerators, GPU for all types together, CPU for vCPUs; with @REGION: only there.",
            "NVIDIA_TESLA_T4",
        ),
    ]
    held: Annotated[float, says("How many of them its jobs hold; a share counts as its part.", 12.0)]
    quota: Annotated[float | None, says("How many are its own; null: there is no limit.", 16.0)]
    borrowing: Annotated[float | None, says("How many more it may borrow; null: all that its cohort lends.", 4.0)]
    lending: Annotated[float | None, says("How many of its own others may borrow; null: all.", None)]
    borrowed: Annotated[float, says("How many of those that it holds are borrowed.", 0.0)]


class QueueRow(TypedDict):
    """A queue of the site."""

    name: Annotated[str, says("Its name.", "research")]
    weight: Annotated[float, says("Of its share beside other queues.", 2.0)]
    cohort: Annotated[str, says("With whom it lends and borrows; empty for nobody.", "lab")]
    policy: Annotated[str, says("The order within it; empty for the site's.", "")]
    share: Annotated[float, says("The greatest part of any resource of the site that it holds, 0 to 1.", 0.375)]
    full: Annotated[bool, says("Whether it holds all of its own or more, so that others go before it.", False)]
    running: Annotated[int, says("Its jobs that hold machines.", 3)]
    waiting: Annotated[int, says("Its jobs that wait.", 1)]
    resources: list[Holding]


class WaitingJob(TypedDict):
    """A job that waits."""

    position: Annotated[int | None, says("Its place in the whole queue, 1 is next; null: its time has not come.", 1)]
    project: Annotated[str, says("Its project.", "local")]
    name: Annotated[str, says("Its name.", "train_3f2a")]
    queue: Annotated[str, says("The queue that it waits in.", "research")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    preemptible: Annotated[bool, says("Whether it may be stopped for others at any time.", False)]
    wants: Annotated[str, says("What it asks for.", "13 × 4 NVIDIA_TESLA_T4")]
    since: Annotated[float, says(f"Since when it has been waiting. {Time}", 1795190400.0)]
    share: Annotated[
        float, says("The share by weight of its queue, or of its user in it where users have shares.", 0.1875)
    ]
    key: Annotated[
        str, says("What the policy goes by, in words; empty: by the time of submission alone.", "priority 100")
    ]
    reason: Annotated[
        Reason | None,
        says(
            "Why it waits; null until it was looked at.",
            {
                "code": "NO_ROOM",
                "text": "needs 13 × 4 NVIDIA_TESLA_T4, and not enough is free now",
                "action": "starts when enough of it is free",
            },
        ),
    ]


class TheQueue(TypedDict):
    """Who waits, and how the queues stand."""

    policy: Annotated[str, says("The order of the site.", "priority")]
    order: Annotated[
        str, says("That in words.", "Greater priority first; every hour of waiting counts like ten points")
    ]
    share_by: Annotated[str, says("Who has a share: each queue, or each user of one.", "queue")]
    backfill: Annotated[str, says("Who may go ahead of a job that waits for room: strict, easy or skip.", "easy")]
    queues: list[QueueRow]
    waiting: list[WaitingJob]
    more: Annotated[int, says("How many more wait than are shown.", 0)]
