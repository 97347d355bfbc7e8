"""Jobs as they are shown: in lists, in full, with their story, why they wait, and what they took."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .diagnosis import Diagnosis
from .words import Time, says

STATES = "QUEUED, PREPARING, RUNNING, SUCCEEDED, FAILED, CANCELLING or CANCELLED."
_NEXT = "What to ask for to get the next page; null on the last one."


class JobName(TypedDict):
    """Which job."""

    project: Annotated[str, says("Its project.", "local")]
    name: Annotated[str, says("Its name.", "train_3f2a")]


class LiveJobs(TypedDict):
    """What waits or runs, in the order of submission."""

    jobs: list[JobName]


class Reason(TypedDict):
    """Why a job waits."""

    code: Annotated[str, says("For programs; docs/states.md lists them.", "NO_ROOM")]
    text: Annotated[str, says("For people.", "needs 1 × 4 NVIDIA_TESLA_T4, and not enough is free now")]
    action: Annotated[str, says("What would help.", "starts when enough of it is free")]


class JobRow(TypedDict):
    """A job in a list."""

    name: Annotated[str, says("Its name.", "cluster_1")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    state: Annotated[str, says(STATES, "QUEUED")]
    queue: Annotated[str, says("The queue that it waits in, or waited in.", "default")]
    preemptible: Annotated[bool, says("Whether it may be stopped for others at any time.", False)]
    accelerators: Annotated[float, says("Accelerators of all its replicas together; a share counts as its part.", 52)]
    replicas: Annotated[int, says("How many processes it has.", 13)]
    submitted_at: Annotated[float, says(Time, 1795190400.0)]
    started_at: Annotated[float | None, says(f"When it first ran. {Time}", None)]
    ended_at: Annotated[float | None, says(f"When it ended. {Time}", None)]
    reason: Annotated[
        Reason | None,
        says(
            "Why it waits; null if it does not.",
            {
                "code": "NO_ROOM",
                "text": "needs 13 × 4 NVIDIA_TESLA_T4, and not enough is free now",
                "action": "starts when enough of it is free",
            },
        ),
    ]
    message: Annotated[str, says("Why it ended as it did, or failed before it was queued again.", "")]
    held_until: Annotated[
        float | None, says(f"Until when places are kept after a failure; null if none is. {Time}", None)
    ]
    rehearsal: Annotated[bool, says("Whether it runs on virtual nodes made for it.", False)]


class JobList(TypedDict):
    """A page of jobs, newest first."""

    jobs: list[JobRow]
    next: Annotated[int | None, says(f"{_NEXT} Ask with `before`.", 17)]


class Machines(TypedDict):
    """The machines of one role."""

    role: Annotated[str, says("chief, worker, ps or evaluator.", "chief")]
    count: Annotated[int, says("How many replicas.", 1)]
    machine_type: Annotated[str, says("A machine type; empty for a shape of its own.", "n1-highcpu-16")]
    vcpus: Annotated[float, says("vCPUs of each.", 16.0)]
    memory_gb: Annotated[float, says("Memory of each in GB.", 14.4)]
    accelerator: Annotated[
        str,
        says(
            "Their type; several with | between, of which one is taken; ANY for whatever a node has; empty for none.",
            "NVIDIA_TESLA_T4",
        ),
    ]
    accelerators: Annotated[float, says("Accelerators of each; below one it is a share of a device.", 4)]


class Replica(TypedDict):
    """One process of an attempt."""

    name: Annotated[str, says("Role and index.", "chief-0")]
    state: Annotated[str, says("NOTHING, STARTING, UP, SUCCEEDED, FAILED or LOST.", "UP")]
    exit_code: Annotated[int | None, says("What its program ended with; null before.", None)]
    node: Annotated[str, says("Where it is.", "local")]
    devices: Annotated[list[str], says("The accelerators that are its own.", ["GPU-5f1e"])]
    address: Annotated[str, says("HOST:PORT, by which the others reach it.", "127.0.0.1:22562")]
    message: Annotated[str, says("What it told of its end.", "")]
    held_until: Annotated[
        float | None, says(f"Until when its place is kept after a failure; null: it is not. {Time}", None)
    ]
    quiet_since: Annotated[
        float | None,
        says(
            f"Since when it is known to stand still: no output, no beat, no progress; null: it does not. {Time}", None
        ),
    ]


class Attempt(TypedDict):
    """One try of the whole gang."""

    id: Annotated[str, says("Project, job and number.", "local/train_3f2a.1")]
    number: Annotated[int, says("From 1.", 1)]
    state: Annotated[str, says("PLACED, STARTING, RUNNING, STOPPING or ENDED.", "RUNNING")]
    cause: Annotated[str, says("Why it stops; empty before. docs/states.md lists them.", "")]
    detail: Annotated[str, says("The cause in words.", "")]
    placed_at: Annotated[float, says(f"When it got its machines. {Time}", 1795190400.5)]
    started_at: Annotated[float | None, says(f"When every replica ran. {Time}", 1795190401.5)]
    ended_at: Annotated[float | None, says(f"When its machines were free again. {Time}", None)]
    diagnosis: Annotated[Diagnosis | None, says("What it died of; null while it lives, and if it has succeeded.", None)]
    replicas: list[Replica]


class Spent(TypedDict):
    """What the seconds for which a job held its machines were spent on, all attempts together; they add up to all of them."""

    starting: Annotated[float, says("From its places until every replica ran.", 2.5)]
    productive: Annotated[float, says("Its program ran, and what it did lasts; of one that lives, so far.", 3600.0)]
    lost: Annotated[float, says("Its program ran, and that had to be done again, or came to nothing.", 0.0)]
    hanging: Annotated[float, says("It stood still, until that was known.", 0.0)]
    held: Annotated[float, says("Its place was kept after a failure.", 0.0)]
    stopping: Annotated[float, says("Until its places were free.", 0.5)]


class JobDetails(TypedDict):
    """A job in full."""

    id: Annotated[str, says("Project and name.", "local/train_3f2a")]
    project: Annotated[str, says("Its project.", "local")]
    name: Annotated[str, says("Its name.", "train_3f2a")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    labels: Annotated[dict[str, str], says("Its labels.", {"team": "vision"})]
    queue: Annotated[str, says("The queue that it waits in, or waited in.", "default")]
    priority: Annotated[int, says("0 to 1000, greater first.", 0)]
    preemptible: Annotated[bool, says("Whether it may be stopped for others at any time.", False)]
    resumable: Annotated[bool, says("Whether it goes on from its checkpoint, started again.", False)]
    notes: Annotated[list[str], says("What to know about what it asks for.", [])]
    job_dir: Annotated[str, says("Where its program keeps files; empty for nowhere.", "gs://my-bucket/out")]
    job_dir_path: Annotated[
        str,
        says("Where that is for programs on this machine.", "/home/ada/.local/share/stoker/buckets/gs/my-bucket/out"),
    ]
    rehearsal: Annotated[bool, says("Whether it runs on virtual nodes made for it.", False)]
    submitted_at: Annotated[float, says(Time, 1795190400.0)]
    started_at: Annotated[float | None, says(f"When it first ran. {Time}", 1795190401.5)]
    ended_at: Annotated[float | None, says(f"When it ended. {Time}", None)]
    state: Annotated[str, says(STATES, "RUNNING")]
    attempt: Annotated[int, says("The number of its newest attempt; 0 for none yet.", 1)]
    replicas: Annotated[int, says("How many processes it has.", 1)]
    up: Annotated[int | None, says("How many of them run or are done; null while it has no machines.", 1)]
    reason: Annotated[Reason | None, says("Why it waits; null if it does not.", None)]
    message: Annotated[str, says("Why it ended as it did, or failed before it was queued again.", "")]
    exit_code: Annotated[
        int | None, says("The code of the replica that failed first, 0 for success; null until it has ended.", None)
    ]
    machines: list[Machines]
    spent_seconds: Spent
    attempts: list[Attempt]


class StoryLine(TypedDict):
    """One thing that happened."""

    n: Annotated[int, says("Its position; grows, with gaps.", 412)]
    at: Annotated[float, says(Time, 1795190400.0)]
    by: Annotated[str, says("Who did it: a user, the loop, a replica.", "ada")]
    what: Annotated[str, says("The kind of change.", "Submit")]
    text: Annotated[str, says("The change in full.", "Cancel(job='local/train_3f2a', …)")]


class Story(TypedDict):
    """A page of what happened to a job, in order."""

    story: list[StoryLine]
    next: Annotated[int | None, says(f"{_NEXT} Ask with `after`.", 412)]


class Artifact(TypedDict):
    """A file below a job's directory."""

    name: Annotated[str, says("Its path below the job's directory.", "model/weights.h5")]
    uri: Annotated[str, says("Its address.", "gs://my-bucket/out/model/weights.h5")]
    size_bytes: Annotated[int, says("Its size in bytes.", 1048576)]
    modified_at: Annotated[float | None, says(f"When it was written. {Time}", 1795190455.0)]
    download: Annotated[
        str | None,
        says("Its path on this server; null for a plain path.", "/stoker/v1/files/gs/my-bucket/out/model/weights.h5"),
    ]


class Artifacts(TypedDict):
    """A page of the files below a job's directory, by name."""

    job_dir: Annotated[str, says("The directory; empty for none.", "gs://my-bucket/out")]
    artifacts: list[Artifact]
    next: Annotated[str | None, says(f"{_NEXT} Ask with `after`.", "model/weights.h5")]


class Metrics(TypedDict):
    """What a job took so far. The three times add up to the time from its submission to its end, or to now."""

    state: Annotated[str, says(STATES, "SUCCEEDED")]
    queued_seconds: Annotated[float, says("Without machines: waiting, also between two attempts.", 1.5)]
    preparing_seconds: Annotated[float, says("With machines, until every replica ran.", 2.25)]
    running_seconds: Annotated[float, says("From then on, until the machines were free again.", 3600.0)]
    attempts: Annotated[int, says("How often the whole job was tried.", 1)]
    restarts: Annotated[int, says("How often single replicas were started again in place.", 0)]
    machine_hours: Annotated[float, says("Replicas × hours for which they held machines.", 13.01)]
    accelerator_hours: Annotated[float, says("Accelerators × hours for which they were held.", 40.03)]
    cost_usd: Annotated[
        float | None,
        says(
            "What these machines cost for this time at their pool's price, or on Google Cloud, on demand, before tax and"
            " discounts; null where it is not known. What your own hardware costs is not in it.",
            21.11,
        ),
    ]
    price_as_of: Annotated[str | None, says("The date of the oldest price in it, or its catalog.", "2024-09-01")]
    cost_notes: Annotated[list[str], says("Why there is no cost, or what to know about it.", [])]
