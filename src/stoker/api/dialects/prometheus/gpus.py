"""GPUs under the names, units and labels of DCGM, so that its public dashboards work as they are.

What a card does not tell has no series: no blanks, no sentinels. Sources: DCGM; dcgm-exporter's `render_metrics.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stoker.gpu.metrics import METRICS
from stoker.sampling.monitor import GpuNow

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def lines_of(
    gpus: Iterable[GpuNow], holders: Mapping[str, Iterable[tuple[str, str]]], *, hpc_job: bool = False
) -> Iterator[str]:
    """The lines of all GPUs. `holders`: uuid → the job and the replica of each that holds it.

    `hpc_job`: a label of every series, and so a series for each job, as dcgm-exporter has it; else the number of series is that
    of the GPUs, however many jobs come and go.

    Not by prometheus-client, which takes four times as long: of 1,000 GPUs there are 36,000 lines, with the same labels again
    and again.
    """
    gpus = list(gpus)
    shown = [(now, _text(_labels(now))) for now in gpus]
    by_job = [*_by_job(gpus, holders)] if hpc_job else shown
    for metric in METRICS:
        if not metric.dcgm:
            continue
        name = f"DCGM_FI_{metric.dcgm}"
        values = [(labels, now.reading.values.get(metric.name)) for now, labels in by_job]
        known = [f"{name}{labels} {float(value * metric.scale)!r}\n" for labels, value in values if value is not None]
        if known:
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {'counter' if metric.is_counter else 'gauge'}\n"
            yield from known
    yield "# HELP stoker_gpu_fault 1: the GPU cannot be read, and why.\n# TYPE stoker_gpu_fault gauge\n"
    for now, _ in shown:
        if now.reading.fault is not None:
            told = {"UUID": now.reading.device.uuid, "node": now.node, "fault": str(now.reading.fault)}
            yield f"stoker_gpu_fault{_text(told)} 1\n"
    yield "# HELP stoker_gpu_job_info 1: a replica of a job holds the GPU; to be joined on UUID.\n"
    yield "# TYPE stoker_gpu_job_info gauge\n"
    for now, _ in shown:
        for job, replica in holders.get(now.reading.device.uuid, ()):
            told = {"UUID": now.reading.device.uuid, "job": job, "replica": replica}
            yield f"stoker_gpu_job_info{_text(told)} 1\n"


def _by_job(gpus: Iterable[GpuNow], holders: Mapping[str, Iterable[tuple[str, str]]]) -> Iterator[tuple[GpuNow, str]]:
    for now in gpus:
        jobs = dict.fromkeys(job for job, _ in holders.get(now.reading.device.uuid, ()))
        for job in jobs or [""]:
            yield now, _text(_labels(now) | ({"hpc_job": job} if job else {}))


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()) + "}"


def _labels(now: GpuNow) -> dict[str, str]:
    device = now.reading.device
    labels = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "device": f"nvidia{device.index}",
        "modelName": device.product,
        "hostname": now.node,
    }
    if device.mig_id is not None:
        labels |= {"GPU_I_PROFILE": device.mig_profile, "GPU_I_ID": str(device.mig_id)}
    return labels
