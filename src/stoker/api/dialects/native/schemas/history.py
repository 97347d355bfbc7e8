"""What a site has done: its rules, its machines and the jobs that have run, as much as it takes to run them again on paper."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from .words import Time, says


class PastGroup(TypedDict):
    """Equal replicas of one job."""

    role: Annotated[str, says("chief, worker, ps or evaluator.", "worker")]
    count: Annotated[int, says("How many of them.", 9)]
    vcpus: Annotated[float, says("vCPUs of each.", 16.0)]
    memory_gb: Annotated[float, says("Memory of each in GB.", 14.4)]
    accelerator: Annotated[
        str, says("The accelerator types that each takes, joined by `|`, or ANY.", "NVIDIA_TESLA_T4")
    ]
    accelerator_milli: Annotated[int, says("Thousandths of accelerators of each.", 4000)]


class PastJob(TypedDict):
    """A job that has run, or still runs."""

    id: Annotated[str, says("project/name.", "local/train_3f2a")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    queue: Annotated[str, says("Its queue.", "default")]
    priority: Annotated[int, says("0 to 1000, greater first.", 0)]
    preemptible: Annotated[bool, says("Whether it may be stopped for others at any time.", False)]
    resumable: Annotated[bool, says("Whether it goes on from its checkpoint.", True)]
    region: Annotated[str, says("Its region.", "us-central1")]
    state: Annotated[str, says("QUEUED, ACTIVE, SUCCEEDED, FAILED or CANCELLED.", "SUCCEEDED")]
    submitted_at: Annotated[float, says(Time, 1767225600.0)]
    started_at: Annotated[float | None, says(f"When it first ran; null: not yet. {Time}", 1767225660.0)]
    ended_at: Annotated[float | None, says(f"Null: not yet. {Time}", 1767229200.0)]
    held_seconds: Annotated[float, says("How long it has held its machines, all attempts together, up to now.", 3540.0)]
    preemptions: Annotated[int, says("How often it was stopped for others.", 0)]
    failures: Annotated[int, says("How many attempts failed.", 0)]
    groups: list[PastGroup]


class PastNode(TypedDict):
    """A machine, as it is now."""

    name: Annotated[str, says("Its name.", "local-nvidia_tesla_t4")]
    region: Annotated[str, says("Its region; empty stands for any.", "")]
    zone: Annotated[str, says("Its zone.", "local")]
    rack: Annotated[str, says("Its rack; empty: unknown.", "")]
    accelerator: Annotated[str, says("The type of its accelerators; empty for none.", "NVIDIA_TESLA_T4")]
    accelerators: Annotated[int, says("How many accelerators it has.", 4)]
    vcpus: Annotated[float, says("Its vCPUs.", 16.0)]
    memory_gb: Annotated[float, says("Its memory in GB.", 14.4)]
    soft: Annotated[bool, says("Whether one job alone may take more vCPUs and memory than it has.", True)]


class History(TypedDict):
    """What a site has done. Rehearsals are left out."""

    now: Annotated[float, says(f"The server's time. {Time}", 1767229260.0)]
    site: Annotated[
        dict[str, Any], says("The rules that it goes by now: queues, policy, preemption.", {"policy": "priority"})
    ]
    nodes: list[PastNode]
    jobs: list[PastJob]
    is_whole: Annotated[bool, says("Whether these are all jobs since then; otherwise the newest.", True)]
