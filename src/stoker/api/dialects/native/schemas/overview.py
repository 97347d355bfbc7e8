"""What a site does at this moment, in one answer."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .jobs import STATES
from .words import Time, says

_RECENT = "Means over the last five minutes, the oldest first; null where nothing was sampled. Empty if not asked for."


class Holder(TypedDict):
    """A replica that holds a GPU, or a share of it."""

    project: Annotated[str, says("The project of its job.", "local")]
    job: Annotated[str, says("Its job.", "train_3f2a")]
    replica: Annotated[str, says("Role and index.", "worker-0")]


class OverviewNode(TypedDict):
    """A machine."""

    name: Annotated[str, says("Its name.", "local-nvidia_h100_80gb")]
    state: Annotated[str, says("UP, DOWN, or GONE.", "UP")]
    is_cordoned: Annotated[bool, says("Whether it is given nothing new.", False)]
    virtual: Annotated[bool, says("Whether it is only said to be there.", False)]
    accelerator: Annotated[str, says("The type of its accelerators; empty for none.", "NVIDIA_H100_80GB")]
    accelerators: Annotated[int, says("How many it has.", 8)]
    accelerators_free: Annotated[float, says("How many of them nobody holds.", 2)]
    values: Annotated[
        dict[str, float],
        says("What it shows, by the names of docs/monitoring.md. Empty for who is no admin.", {"cpu_percent": 23.0}),
    ]
    recent: Annotated[list[float | None], says(f"cpu_percent. {_RECENT}", [20.0, 23.0])]


class OverviewGpu(TypedDict):
    """A GPU, or a part of one, as it was seen last."""

    node: Annotated[str, says("Its node.", "local-nvidia_h100_80gb")]
    index: Annotated[int, says("Its place in the machine, as the driver counts.", 0)]
    uuid: Annotated[str, says("Its name for good.", "GPU-8f3a")]
    product: Annotated[str, says("What it is.", "NVIDIA H100 80GB HBM3")]
    mig_profile: Annotated[str, says("Of a part of a GPU: which; empty for a whole one.", "1g.10gb")]
    values: Annotated[
        dict[str, float], says("The most important numbers of it (docs/monitoring.md).", {"utilization_percent": 91.0})
    ]
    fault: Annotated[str | None, says("Why it cannot be read; null: it can be.", None)]
    holders: Annotated[list[Holder], says("Who holds it, of jobs that you may see.", [])]
    recent: Annotated[list[float | None], says(f"utilization_percent. {_RECENT}", [88.0, 91.0])]


class OverviewJob(TypedDict):
    """A job that holds machines."""

    project: Annotated[str, says("Its project.", "local")]
    name: Annotated[str, says("Its name.", "train_3f2a")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    state: Annotated[str, says(STATES, "RUNNING")]
    since: Annotated[float, says(f"When this attempt of it began to run, or got its machines. {Time}", 1795190400.0)]
    replicas: Annotated[int, says("How many processes it has.", 1)]
    accelerators: Annotated[float, says("Accelerators of all its replicas together.", 8)]
    nodes: Annotated[list[str], says("Its nodes, eight of them at most.", ["local-nvidia_h100_80gb"])]
    step: Annotated[int | None, says("The last step that its first replica has told of; null: none.", 1200)]
    steps_per_second: Annotated[float | None, says("Of its first replica, over the last half minute of training.", 4.5)]
    data_wait_share: Annotated[
        float | None, says("Part of their time that its steps waited for data; of several replicas the most.", 0.02)
    ]


class Counts(TypedDict):
    """How much there is in all, also of what is left out of the lists."""

    nodes: Annotated[int, says("Machines.", 1)]
    gpus: Annotated[int, says("GPUs.", 8)]
    gpus_held: Annotated[float, says("GPUs that jobs hold; a share counts as its part.", 6.5)]
    gpus_busy: Annotated[int, says("Sampled GPUs that are busy for a tenth of the time or more.", 5)]
    jobs_running: Annotated[int, says("Jobs that hold machines, of those that you may see.", 3)]
    jobs_waiting: Annotated[int, says("Jobs that wait, of those that you may see.", 2)]


class Overview(TypedDict):
    """What a site does at this moment."""

    at: Annotated[float, says(f"The server's clock. {Time}", 1795190400.0)]
    version: Annotated[str, says("The server's version.", "0.1.0")]
    counts: Counts
    nodes: Annotated[list[OverviewNode], says("The machines: those that are sampled first; 500 at most.", [])]
    gpus: Annotated[list[OverviewGpu], says("Their GPUs, by node and place; 2000 at most.", [])]
    jobs: Annotated[list[OverviewJob], says("Jobs that hold machines, the oldest first; 200 at most.", [])]
