"""What a job has really used: its GPUs' memory at the peak, how busy they were, its batch. What was not seen is not guessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .findings.of_steps import INPUT_SEVERE
from .training_steps import Progress, per_second, share

MEMORY, BUSY, SM = "memory_used_bytes", "utilization_percent", "sm_active_ratio"
TOTAL = "memory_total_bytes"
HOST_MEMORY = "host_memory_used_bytes"
_TAKEN_AT_ONCE = 0.7  # of a GPU's memory, from the beginning to the end: a framework took it in advance
_STEADY = 0.97
_IDLE_PERCENT = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one GPU showed while a job held it: the greatest or the mean of each point, NaN where nothing was sampled."""

    memory_bytes: Sequence[float] = ()
    total_bytes: float = 0.0  # 0: it was not told
    busy_percent: Sequence[float] = ()
    sm_ratio: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What is known of a job. None: it is not known."""

    gpus: int
    peak_bytes: float | None = None  # of the GPU that used most
    is_upper_bound: bool = False  # a framework took memory in advance
    busy_percent: float | None = None
    sm_ratio: float | None = None
    batch: int | None = None  # of all replicas together
    examples_per_second: float | None = None
    data_wait_share: float | None = None
    words: tuple[str, ...] = ()


def used_by(
    gpus: Sequence[Seen], training: Sequence[Progress], *, host_peak_bytes: float | None = None, asked_gb: float = 0.0
) -> Used:
    """What a job has used. `host_peak_bytes`: of its machines, with all else that ran there; `asked_gb`: of memory, a replica."""
    peaks = [(max(known), seen) for seen in gpus if (known := _known(seen.memory_bytes))]
    peak, most = max(peaks, key=lambda one: one[0], default=(None, None))
    is_bound = most is not None and peak is not None and _is_taken_at_once(most, peak)
    batch = sum(found for progress in training if (found := _batch(progress)))
    rates = [rate for p in training if (rate := per_second(p.recent.examples, p.recent)) is not None]
    waits = [wait for p in training if (wait := share(p.recent.waited, p.recent)) is not None]
    used = Used(
        gpus=len(gpus),
        peak_bytes=peak,
        is_upper_bound=is_bound,
        busy_percent=_mean(value for seen in gpus for value in seen.busy_percent),
        sm_ratio=_mean(value for seen in gpus for value in seen.sm_ratio),
        batch=batch or None,
        examples_per_second=sum(rates) if rates else None,
        data_wait_share=max(waits, default=None),
    )
    words = tuple(_words(used, host_peak_bytes, asked_gb))
    return Used(**{name: getattr(used, name) for name in Used.__slots__ if name != "words"}, words=words)


def _words(used: Used, host_peak_bytes: float | None, asked_gb: float) -> Iterable[str]:
    if not used.gpus:
        yield "it held no GPU: what memory it would need on one was not measured"
        if asked_gb:
            yield f"it asked for {asked_gb:g} GB of memory for each replica"
        if host_peak_bytes:
            yield (
                f"while it ran, up to {host_peak_bytes / 1e9:.3g} GB of its machine's memory were in use, by all that ran there"
            )
    elif used.peak_bytes is None:
        yield "its GPUs were not sampled while it ran"
    elif used.is_upper_bound:
        yield (
            "nearly all memory was taken from the beginning on, as TensorFlow and JAX do: what it needs is less, nobody knows"
            " how much (TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_PREALLOCATE=false)"
        )
    if used.data_wait_share is not None and used.data_wait_share >= INPUT_SEVERE:
        yield f"it waits for data {100 * used.data_wait_share:.0f} % of its time: a quicker GPU would wait longer"
    elif used.busy_percent is not None and used.busy_percent < _IDLE_PERCENT:
        yield f"its GPUs were busy {used.busy_percent:.0f} % of the time: a smaller one may be as quick"
    if used.batch is None:
        yield "it has told of no steps with their examples, so that its batch is not known"


def _is_taken_at_once(seen: Seen, peak: float) -> bool:
    known = _known(seen.memory_bytes)
    late = known[len(known) // 4 :]
    return bool(seen.total_bytes) and peak >= _TAKEN_AT_ONCE * seen.total_bytes and min(late) >= _STEADY * peak


def _batch(progress: Progress) -> int | None:
    recent = progress.recent
    return round(recent.examples / recent.steps) if recent.steps and recent.examples else None


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _mean(values: Iterable[float]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None
