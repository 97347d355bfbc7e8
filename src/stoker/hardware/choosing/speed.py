"""How long a step of training takes on a device: by what it computes, or by what it moves, whichever takes longer (a roofline).

A small batch moves all weights for little work, so that the memory's bandwidth decides; a large one computes. The shares of the
peak that programs reach are assumptions, the same for all devices of a kind: they make a ranking, not a promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.hardware.gpus import Gpu

from .training_memory import Estimate
from .workload import ModelKind, Precision, Workload

COMPUTE_SHARE = 0.4
"""Of its peak that a GPU computes in a training that is written well: PaLM 0.46, MegaScale 0.55, most less."""

BANDWIDTH_SHARE = 0.8
"""Of its bandwidth that a GPU moves at best (NVIDIA, DCGM user guide)."""

LAUNCH_SECONDS = 1e-3
"""A step is some hundred operations, each of which Python takes some microseconds to start, on a GPU as on processors."""

VCPU_TFLOPS = 0.02
"""What a vCPU computes in fp32: half of a core that does 32 operations in each of 2.5e9 cycles, at half of that."""

VCPU_GB_S = 2.5
"""Its part of a socket's bandwidth: six channels of DDR4-2666 and 56 threads."""

FURTHER_DEVICE = 0.9
"""What each further device of a machine adds to one, as gradients have to be exchanged."""

TYPICAL_FLOPS_A_BYTE = 100.0
"""Where nobody has said what is trained: a training computes so much for each byte that it moves."""

_CONVOLUTION_POSITIONS = 160.0  # ResNet-50: 24.5 GFLOP of an image for 25.6 million weights
_PASSES, _PASSES_ANEW = 6.0, 8.0  # operations for each weight and position: forward 2, backward 4; forward once more
_RECURRENT = 1 / 4  # of the peak that a model reaches whose steps wait for each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a step does for each example, and what it moves besides, however many examples it has."""

    flops: float
    moved_bytes: float
    step_bytes: float
    compute_share: float = COMPUTE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a device does in a second at best, at one precision."""

    tflops: float
    gb_s: float
    precision: str  # in which it computes; another than was asked for, where it does not have that
    is_cpu: bool = False


def work_of(work: Workload, memory: Estimate) -> Work:
    """What a step of it does."""
    positions = work.positions
    if work.kind is ModelKind.CONVOLUTIONAL:
        positions = _CONVOLUTION_POSITIONS * work.image_share
    flops = (_PASSES_ANEW if work.checkpointing else _PASSES) * work.parameters * positions
    if work.kind is ModelKind.TRANSFORMER:
        flops += 12.0 * work.depth * work.width * positions**2  # the scores of attention, and what is summed by them
    resident = memory.part("weights") + memory.part("optimizer")
    passes = 2 * work.parameters * work.value_bytes + 2 * memory.part("gradients")
    return Work(
        flops=flops,
        moved_bytes=4.0 * memory.part("activations") / work.batch,  # written, read, and so its gradients
        step_bytes=passes + 2 * resident,  # the update reads and writes them
        compute_share=COMPUTE_SHARE * (_RECURRENT if work.kind is ModelKind.RECURRENT else 1.0),
    )


def rates_of(chip: Gpu, precision: Precision) -> Rates | None:
    """What a chip does; None: its figures are not known."""
    if not chip.bandwidth_gb_s:
        return None
    for name, tflops in _by_preference(chip, precision):
        if tflops:
            return Rates(tflops=tflops, gb_s=chip.bandwidth_gb_s, precision=name)
    return None


def cpu_rates(vcpus: float) -> Rates:
    """What so many vCPUs do. Few of them have units for bf16 or fp16: they count as fp32."""
    return Rates(tflops=vcpus * VCPU_TFLOPS, gb_s=vcpus * VCPU_GB_S, precision="fp32", is_cpu=True)


def step_seconds(work: Work, batch: int, rates: Rates, devices: int = 1) -> float:
    """How long a step of so many examples takes, divided among so many devices of a machine."""
    each = -(-batch // devices)
    share = 1.0 if rates.is_cpu else work.compute_share
    compute = each * work.flops / (share * rates.tflops * 1e12)
    moved = (work.step_bytes + each * work.moved_bytes) / (BANDWIDTH_SHARE * rates.gb_s * 1e9)
    alone = max(compute, moved)
    return (alone if devices == 1 else alone / FURTHER_DEVICE) + LAUNCH_SECONDS


def relative_speed(rates: Rates, devices: int = 1) -> float:
    """How quick it is where nobody has said what is trained: only to be compared with others'. In TFLOPS."""
    share = 1.0 if rates.is_cpu else COMPUTE_SHARE
    one = min(share * rates.tflops, BANDWIDTH_SHARE * rates.gb_s * TYPICAL_FLOPS_A_BYTE / 1e3)
    return one if devices == 1 else one * devices * FURTHER_DEVICE


def _by_preference(chip: Gpu, precision: Precision) -> list[tuple[str, float | None]]:
    fp32 = [("fp32", chip.fp32_tflops), ("bf16", chip.bf16_tflops)]  # TPUs have no figure of fp32 here
    if precision is Precision.FP32:
        return fp32
    if precision is Precision.TF32:
        return [("tf32", chip.tf32_tflops), *fp32]
    if precision is Precision.FP16:
        return [("fp16", chip.fp16_tflops), *fp32]
    return [("bf16", chip.bf16_tflops), *fp32]
