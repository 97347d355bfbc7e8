"""Rules over what GPUs showed. They never guess: where a card does not tell what a rule needs, the rule says nothing.

Thresholds: NVIDIA's DCGM guide (SM activity below 0.5 is likely ineffective use, 0.8 is needed for effective use), Kempner
Institute's classification (launch-bound, memory-bound, host-to-device), dstack's policy (idle: every sample below 5 %). A GPU
that several share shows what all of them do, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from stoker.insight.training_steps import Window, share

from . import advice
from .evidence import Confidence, Evidence, Finding, GpuUse, Source
from .of_steps import INPUT_WARNING, TOGETHER_SHARE

UNUSED_AFTER_SECONDS, UNUSED_BYTES = 600.0, 300 << 20
IDLE_PERCENT, IDLE_SECONDS = 5.0, 300.0
THERMAL_BITS, POWER_SUPPLY_BIT = 0x8 | 0x20 | 0x40, 0x80
_THERMAL_SHARE, _SLOWED_CLOCK = 0.1, 0.9
_LEAST_SECONDS = 60.0


def is_not_used(found: Evidence) -> Iterator[Finding]:
    """Held, and nothing of the job on it."""
    for gpu in _alone(found):
        if _is_unused(found, gpu):
            used = gpu.greatest("memory_used_bytes")
            others = sum(other.replica == gpu.replica for other in found.gpus) - 1
            of_several = f", one of {others + 1} that it holds" if others else ""
            yield Finding(
                code="GPU_UNUSED",
                replica=gpu.replica,
                text=f"{gpu.replica} does not use {_name(gpu)}{of_several}",
                action="ask for fewer GPUs, use them all (--distribute), or see whether the framework is built for CPUs alone",
                source=Source.SAMPLES,
                evidence=(
                    f"0 % busy in {gpu.seconds:.0f} s, {(used or 0.0) / 2**20:.0f} MiB in use"
                    + (", and no process on it" if gpu.processes == 0 else ""),
                ),
                change=_sees_gpus(found.framework(gpu.replica)),
            )
            return


def is_idle(found: Evidence) -> Iterator[Finding]:
    """In use, and nothing runs on it."""
    for gpu in _alone(found):
        busy = gpu.greatest("utilization_percent")
        if busy is None or _is_unused(found, gpu):
            continue
        if busy < IDLE_PERCENT and gpu.seconds >= IDLE_SECONDS:
            yield Finding(
                code="GPU_IDLE",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} has been idle for {gpu.seconds / 60:.0f} minutes",
                action="see what the program does (stoker profile JOB); cancel it if it is done",
                source=Source.SAMPLES,
                evidence=(f"never more than {busy:.0f} % busy in {gpu.seconds:.0f} s",),
            )
            return


def is_held_down(found: Evidence) -> Iterator[Finding]:
    """Too hot, or short of power from outside. The power limit itself is no fault."""
    for gpu in found.gpus:
        hot, short = (gpu.share_of_bits("throttle_reasons", bits) for bits in (THERMAL_BITS, POWER_SUPPLY_BIT))
        clock, most = gpu.mean("sm_clock_mhz"), gpu.greatest("sm_clock_max_mhz")
        is_slowed = clock is not None and most is not None and clock < _SLOWED_CLOCK * most
        at = gpu.greatest("temperature_celsius")
        shown = (
            f"{100 * (hot or 0.0):.0f} % of samples held down by heat",
            *([] if at is None else [f"up to {at:.0f} °C"]),
        )
        if clock is not None and most is not None:
            shown += (f"clock {clock:.0f} of {most:.0f} MHz",)
        if short:
            yield Finding(
                code="POWER_SUPPLY",
                replica=gpu.replica,
                text=f"the power supply of {gpu.node} slows {_name(gpu)} down",
                action="tell the admin: cables, power supply, or too much on one circuit",
                source=Source.SAMPLES,
                evidence=(f"the power brake was on in {100 * short:.0f} % of samples",),
            )
            return
        if hot is not None and hot >= _THERMAL_SHARE and is_slowed:
            yield Finding(
                code="TOO_HOT",
                replica=gpu.replica,
                text=f"{_name(gpu)} on {gpu.node} is too hot, and slows down",
                action="tell the admin: fans, air, dust; until then drain the machine, and the job goes on elsewhere",
                source=Source.SAMPLES,
                evidence=shown,
            )
            return


def starves(found: Evidence) -> Iterator[Finding]:
    """Busy and idle by turns, where the program does not tell what it waits for."""
    if any(_waited(found, gpu.replica) is not None for gpu in found.gpus):
        return
    for gpu in _at_work(found):
        if gpu.points.seconds > 1.0 or gpu.seconds < _LEAST_SECONDS:
            continue
        high, low = gpu.share("utilization_percent", above=80.0), gpu.share("utilization_percent", below=20.0)
        if high is not None and low is not None and high > 0.1 and low > 0.15:
            framework = found.framework(gpu.replica)
            yield Finding(
                code="INPUT_BOUND",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} is busy and idle by turns: most likely it waits for data",
                action="let the program tell (for batch in stoker.reading(loader)), and read ahead by several workers",
                source=Source.SAMPLES,
                confidence=Confidence.MEDIUM,
                evidence=(
                    f"above 80 % in {100 * high:.0f} % and below 20 % in {100 * low:.0f} % of {gpu.seconds:.0f} s",
                ),
                change=advice.read_ahead(framework, 8),
            )
            return


def waits_for_the_bus(found: Evidence) -> Iterator[Finding]:
    """The data come, and what takes long is to bring them onto the GPU."""
    for gpu in _at_work(found):
        received, active = gpu.mean("pcie_received_bytes_per_second"), gpu.mean("sm_active_ratio")
        if received is None or active is None or not _is_fed(found, gpu.replica):
            continue
        if received >= 1e9 and active < 0.3:
            yield Finding(
                code="HOST_TO_DEVICE",
                replica=gpu.replica,
                text=f"{gpu.replica} spends its time on bringing data onto {_name(gpu)}",
                action="pin memory and let copies overlap; send bytes and make floats of them on the GPU; keep small data there",
                source=Source.BOTH,
                evidence=(f"{received / 1e9:.1f} GB/s over PCIe", f"multiprocessors active {100 * active:.0f} %"),
                change=advice.send_quickly(found.framework(gpu.replica)),
            )
            return


def kernels_are_small(found: Evidence) -> Iterator[Finding]:
    """It is always busy with very little."""
    for gpu in _at_work(found):
        active, any_engine, busy = (
            gpu.mean(name) for name in ("sm_active_ratio", "graphics_active_ratio", "utilization_percent")
        )
        power, limit = gpu.mean("power_watts"), gpu.greatest("power_limit_watts")
        if active is None:
            continue
        is_launching = any_engine is not None and any_engine >= 0.4 and active < 0.25
        is_weak = power is not None and limit is not None and power < 0.5 * limit
        if is_launching or (busy is not None and busy > 90.0 and active < 0.5 and is_weak):
            shown = [f"multiprocessors active {100 * active:.0f} %"]
            shown += [f"busy {busy:.0f} %"] if busy is not None else []
            shown += [f"{power:.0f} of {limit:.0f} W"] if power is not None and limit is not None else []
            yield Finding(
                code="LAUNCH_BOUND",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} is busy with many small kernels, and does little",
                action="a larger batch, fused operations, a compiled model",
                source=Source.SAMPLES,
                evidence=tuple(shown),
                change=advice.compile_it(found.framework(gpu.replica)),
            )
            return


def batch_is_small(found: Evidence) -> Iterator[Finding]:
    """There is room for more at once."""
    for gpu in _at_work(found):
        used, total = gpu.greatest("memory_used_bytes"), gpu.greatest("memory_total_bytes")
        active, dram = gpu.mean("sm_active_ratio"), gpu.mean("dram_active_ratio")
        if used is None or not total or active is None or not _is_fed(found, gpu.replica):
            continue
        if used < 0.5 * total and active < 0.5 and (dram or 0.0) < 0.5:
            window = _window(found, gpu.replica)
            batch = round(window.examples / window.steps) if window is not None and window.steps else 0
            factor = min(8.0, 2.0 ** math.floor(math.log2(total / max(used, total / 16))))
            yield Finding(
                code="SMALL_BATCH",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} is half idle, and more than half of its memory is free",
                action=f"a batch {factor:.0f} times as large should fit; or ask for a part of a GPU",
                source=Source.BOTH,
                evidence=(
                    f"multiprocessors active {100 * active:.0f} %",
                    f"at most {used / 2**30:.1f} of {total / 2**30:.1f} GiB in use",
                ),
                change=advice.larger_batch(found.framework(gpu.replica), batch, factor),
            )
            return


def has_no_tensor_cores_at_work(found: Evidence) -> Iterator[Finding]:
    """It computes in fp32 what bf16 would do."""
    for gpu in _at_work(found):
        active, tensor = gpu.mean("sm_active_ratio"), gpu.mean("tensor_active_ratio")
        if active is not None and tensor is not None and active >= 0.5 and tensor < 0.15:
            yield Finding(
                code="NO_TENSOR_CORES",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} hardly uses its tensor cores",
                action="compute in bf16: --precision bf16 does that without a change of the program",
                source=Source.SAMPLES,
                evidence=(f"tensor cores active {100 * tensor:.0f} %", f"multiprocessors active {100 * active:.0f} %"),
                change="--precision bf16",
            )
            return


def is_bound_by_memory(found: Evidence) -> Iterator[Finding]:
    """Its memory is busy, and its multiprocessors wait for it."""
    for gpu in _at_work(found):
        active, dram = gpu.mean("sm_active_ratio"), gpu.mean("dram_active_ratio")
        if active is not None and dram is not None and dram >= 0.5 and active < 0.5:
            yield Finding(
                code="BANDWIDTH_BOUND",
                replica=gpu.replica,
                text=f"{gpu.replica} is bound by the memory bandwidth of {_name(gpu)}",
                action="fuse operations, compute in bf16, or use a GPU with more bandwidth; a larger batch will not help",
                source=Source.SAMPLES,
                evidence=(f"memory active {100 * dram:.0f} %", f"multiprocessors active {100 * active:.0f} %"),
                change=advice.compile_it(found.framework(gpu.replica)),
            )
            return


def memory_runs_out(found: Evidence) -> Iterator[Finding]:
    """It grows, and will be full soon. What is full from the start is taken in advance, and says nothing."""
    for gpu in _at_work(found):
        used, total = gpu.greatest("memory_used_bytes"), gpu.greatest("memory_total_bytes")
        growth = gpu.growth("memory_used_bytes")
        if used is None or not total or growth is None or growth <= 0 or gpu.seconds < _LEAST_SECONDS:
            continue
        left = (total - used) / growth
        if left < 1800 and growth * gpu.seconds > 0.02 * total:
            yield Finding(
                code="MEMORY_RUNS_OUT",
                replica=gpu.replica,
                text=f"{_name(gpu)} of {gpu.replica} will be out of memory in {left / 60:.0f} minutes",
                action="something is kept from step to step: losses as tensors (loss.item()), outputs in a list, graphs",
                source=Source.SAMPLES,
                confidence=Confidence.MEDIUM,
                evidence=(
                    f"{used / 2**30:.1f} of {total / 2**30:.1f} GiB, and {growth * 60 / 2**20:.0f} MiB more each minute",
                ),
            )
            return


def is_full(found: Evidence) -> Iterator[Finding]:
    """Healthy: another GPU would help."""
    shown = []
    for gpu in found.gpus:
        active, tensor = gpu.mean("sm_active_ratio"), gpu.mean("tensor_active_ratio")
        is_saturated = active is not None and (active >= 0.8 or (active >= 0.6 and (tensor or 0.0) >= 0.5))
        if not is_saturated or gpu.is_shared or not _is_fed(found, gpu.replica):
            return
        shown.append(f"{_name(gpu)}: multiprocessors active {100 * (active or 0.0):.0f} %")
    if shown:
        parts = [
            share(window.together, window) for p in found.training for window in [found.steady(p)] if window is not None
        ]
        lost = max((part for part in parts if part is not None), default=None)
        gain = "" if lost is None else f": about {2 * (1 - min(0.9, lost)):.1f} times as quick with twice as many"
        yield Finding(
            code="SATURATED",
            text="its GPUs are well used: more of them, or faster ones, would help"
            + (gain if lost and lost < TOGETHER_SHARE else ""),
            action="nothing is wrong; stoker probe measures how it scales, stoker choose compares models",
            source=Source.BOTH,
            evidence=tuple(shown[:9]),
            is_good=True,
        )


def _alone(found: Evidence) -> Iterator[GpuUse]:
    yield from (gpu for gpu in found.gpus if not gpu.is_shared)


def _at_work(found: Evidence) -> Iterator[GpuUse]:
    """On which anything runs: of what does not run nothing more is to be said."""
    for gpu in _alone(found):
        busy = gpu.greatest("utilization_percent")
        if busy is None or busy >= IDLE_PERCENT:
            yield gpu


def _is_unused(found: Evidence, gpu: GpuUse) -> bool:
    used = gpu.greatest("memory_used_bytes")
    is_empty = gpu.processes == 0 or (used is not None and used < UNUSED_BYTES)
    return found.ran_seconds >= UNUSED_AFTER_SECONDS and gpu.greatest("utilization_percent") == 0.0 and is_empty


def _window(found: Evidence, replica: str) -> Window | None:
    return next((found.steady(progress) for progress in found.training if progress.replica == replica), None)


def _waited(found: Evidence, replica: str) -> float | None:
    window = _window(found, replica)
    return share(window.waited, window) if window is not None else None


def _is_fed(found: Evidence, replica: str) -> bool:
    """Whether it is known that it does not wait for data."""
    part = _waited(found, replica)
    return part is not None and part < INPUT_WARNING


def _name(gpu: GpuUse) -> str:
    return f"{gpu.product or 'GPU'} {gpu.uuid[:12]}"


def _sees_gpus(framework: str) -> str:
    if framework == "torch":
        return 'print(torch.cuda.is_available(), torch.version.cuda); model.to("cuda")'
    if framework == "keras":
        return 'print(tf.config.list_physical_devices("GPU"))'
    return ""
