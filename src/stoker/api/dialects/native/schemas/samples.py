"""What GPUs and machines show, now and before."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import Time, says

_VALUES = "What it shows, by the names of docs/monitoring.md. What a card does not give is not there."


class GpuProcess(TypedDict):
    """A process that uses a GPU."""

    pid: Annotated[int, says("Its number, as the machine counts.", 4711)]
    memory_bytes: Annotated[float | None, says("Device memory that it uses; null where it is not known.", 1073741824.0)]
    sm_percent: Annotated[float | None, says("Its part of the multiprocessors; null where it is not known.", 80.0)]


class Gpu(TypedDict):
    """A GPU, or a part of one, as it was seen last."""

    node: Annotated[str, says("Its node.", "local-nvidia_h100_80gb")]
    index: Annotated[int, says("Its place in the machine, as the driver counts.", 0)]
    uuid: Annotated[str, says("Its name for good.", "GPU-8f3a")]
    product: Annotated[str, says("What it is.", "NVIDIA H100 80GB HBM3")]
    mig_profile: Annotated[str, says("Of a part of a GPU: which; empty for a whole one.", "1g.10gb")]
    at: Annotated[float, says(f"When it was seen. {Time}", 1795190400.0)]
    values: Annotated[dict[str, float], says(_VALUES, {"utilization_percent": 91.0})]
    fault: Annotated[
        str | None, says("LOST, RESET_REQUIRED, DRIVER_CHANGED, UNREADABLE or STUCK; null: it can be read.", None)
    ]
    problem: Annotated[str, says("The fault in words.", "")]
    jobs: Annotated[
        list[str], says("Replicas that hold it, as JOB/ROLE-INDEX, of jobs that you may see.", ["j/chief-0"])
    ]
    processes: Annotated[list[GpuProcess], says("Who uses it, as the driver tells.", [])]


class Gpus(TypedDict):
    """The GPUs of all machines that are sampled."""

    gpus: Annotated[list[Gpu], says("By node and place.", [])]


class Series(TypedDict):
    """One number over time. Where nothing was sampled it is null."""

    name: Annotated[str, says("Which.", "utilization_percent")]
    mean: Annotated[list[float | None], says("The mean of each point.", [91.0])]
    least: Annotated[list[float | None], says("The least of each point.", [88.0])]
    greatest: Annotated[list[float | None], says("The greatest of each point.", [100.0])]


class Samples(TypedDict):
    """What one source showed in a while."""

    node: Annotated[str, says("The node.", "local-nvidia_h100_80gb")]
    source: Annotated[str, says("The uuid of a GPU; empty: the machine itself.", "GPU-8f3a")]
    replica: Annotated[str, says("Of a job: the replica that held it; otherwise empty.", "worker-0")]
    start: Annotated[float, says(f"When the first point begins. {Time}", 1795190400.0)]
    seconds: Annotated[float, says("The length of a point.", 10.0)]
    series: Annotated[list[Series], says("Number by number.", [])]


class AllSamples(TypedDict):
    """What several sources showed."""

    samples: Annotated[list[Samples], says("Source by source.", [])]
