"""What rules look at: steps, processes and GPUs of one attempt, over the last minutes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from stoker.insight.training_steps import Progress, Window, joined
from stoker.sampling.series import GREATEST, LEAST, MEAN, Points

SPAN_SECONDS = 300.0
"""Rules look at so much of the training, the last."""

LEAST_SECONDS, LEAST_STEPS = 1.0, 4
"""Of less nothing is said."""

FEW_SECONDS, MANY_SECONDS, MANY_STEPS = 5.0, 30.0, 20


class Source(StrEnum):
    """What a finding rests on."""

    STEPS = "steps"  # what the program's steps tell
    SAMPLES = "samples"  # what GPUs and processes showed
    BOTH = "steps and samples"


class Confidence(StrEnum):
    """How sure a finding is."""

    HIGH = "high"  # measured, over long enough
    MEDIUM = "medium"  # measured over a short time, or concluded from what is near it
    LOW = "low"  # over some seconds only


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to know of a training."""

    code: str
    text: str
    action: str
    replica: str = ""  # empty: all of them
    source: Source = Source.STEPS
    confidence: Confidence = Confidence.HIGH
    evidence: tuple[str, ...] = ()  # the numbers
    change: str = ""  # lines of code that would help, for its framework; empty: none is known
    is_good: bool = False  # nothing is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the processes of a replica used."""

    cpus: float  # processors, in the mean
    of_cpus: int  # it may run on so many
    memory_bytes: float  # the most
    read_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """A GPU that a replica held, over the span."""

    replica: str
    node: str
    uuid: str
    product: str
    is_shared: bool  # others hold a part of it: what it shows is not this replica's alone
    points: Points
    processes: int | None = None  # that use it now; None: not known, or it is over

    @property
    def seconds(self) -> float:
        """For how long it was sampled."""
        return self.points.seconds * int(self._known("utilization_percent").sum()) if self.points.names else 0.0

    def mean(self, name: str) -> float | None:
        """Of a metric (gpu/metrics.py; a counter by its speed); None: the card does not tell."""
        return self._figure(name, MEAN, np.mean)

    def greatest(self, name: str) -> float | None:
        """The same, the greatest."""
        return self._figure(name, GREATEST, np.max)

    def least(self, name: str) -> float | None:
        """The same, the least."""
        return self._figure(name, LEAST, np.min)

    def share(self, name: str, above: float = -math.inf, below: float = math.inf) -> float | None:
        """The part of the points whose mean lies between."""
        return self._figure(name, MEAN, lambda values: float(np.mean((values > above) & (values < below))))

    def share_of_bits(self, name: str, bits: int) -> float | None:
        """The part of the points in which one of some bits was set."""
        return self._figure(name, GREATEST, lambda values: float(np.mean(values.astype(np.int64) & bits != 0)))

    def growth(self, name: str) -> float | None:
        """By how much it grows in a second: the slope of a line through its points."""

        def slope(values: Any) -> float:
            return (
                float(np.polyfit(self.points.seconds * np.arange(len(values)), values, 1)[0])
                if len(values) > 2
                else 0.0
            )

        return self._figure(name, MEAN, slope)

    def _known(self, name: str) -> Any:
        row = self.points.table[self.points.names.index(name), :, MEAN] if name in self.points.names else np.empty(0)
        return ~np.isnan(row)

    def _figure(self, name: str, which: int, figure: Any) -> float | None:
        is_known = self._known(name)
        if not is_known.any():
            return None
        return float(figure(self.points.table[self.points.names.index(name), is_known, which].astype(np.float64)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one attempt."""

    training: Sequence[Progress] = ()
    gpus: Sequence[GpuUse] = ()
    uses: Mapping[str, Use] = field(default_factory=dict)
    ran_seconds: float = 0.0  # since its programs were started
    quiet: Mapping[str, float] = field(default_factory=dict)  # replicas that stand still, and for how many seconds

    def steady(self, progress: Progress) -> Window | None:
        """The last minutes of a replica's training as one window, without its first step; None: there is too little of it."""
        found: Window | None = None
        for window in reversed(progress.windows):
            if not window.steps:
                continue
            if window.is_first or (found is not None and (window.step > found.step or found.seconds >= SPAN_SECONDS)):
                break
            found = window if found is None else joined(window, found)
        if found is None or found.seconds < LEAST_SECONDS or found.steps < LEAST_STEPS:
            return None
        return found

    def confidence(self, window: Window) -> Confidence:
        """Of what is measured in a window."""
        if window.seconds < FEW_SECONDS:
            return Confidence.LOW
        is_long = window.steps >= MANY_STEPS and window.seconds >= MANY_SECONDS
        return Confidence.HIGH if is_long else Confidence.MEDIUM

    def framework(self, replica: str) -> str:
        """What a replica trains with; empty: not known."""
        return next((progress.framework for progress in self.training if progress.replica == replica), "")


def uses_of(lines: Iterable[tuple[str, str]], span_seconds: float = SPAN_SECONDS) -> dict[str, Use]:
    """What the processes of replicas used over the last minutes: from (replica, line), as runtime/usage.py tells."""
    told: dict[str, list[dict[str, float]]] = {}
    for replica, line in lines:
        found = _line(line)
        if found is not None:
            told.setdefault(replica, []).append(found)
    return {
        replica: _use([one for one in of_it if one["t"] > of_it[-1]["t"] - span_seconds])
        for replica, of_it in told.items()
    }


def _use(told: Sequence[Mapping[str, float]]) -> Use:
    whole = sum(one["seconds"] for one in told)

    def mean(name: str) -> float:
        return sum(one[name] * one["seconds"] for one in told) / whole

    return Use(
        cpus=mean("cpus"),
        of_cpus=max(1, int(told[-1]["of_cpus"])),
        memory_bytes=max(one["memory_bytes"] for one in told),
        read_bytes_per_second=mean("read_bytes_per_second"),
    )


_NUMBERS = ("t", "seconds", "cpus", "of_cpus", "memory_bytes", "read_bytes_per_second")


_MOST = 1e15  # of any number that can be true


def _line(line: str) -> dict[str, float] | None:
    try:
        told = json.loads(line)
        found = {name: float(told[name]) for name in _NUMBERS}
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    is_sound = all(0 <= value < _MOST for value in found.values()) and found["seconds"] > 0
    return found if is_sound else None
