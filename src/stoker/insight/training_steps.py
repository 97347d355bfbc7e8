"""How a job trains: its steps, from what its programs tell of them (frameworks/metrics/meter.py). Pure.

Programs may tell anything, so what is no window is passed over. What follows from it stands in findings/.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

MOST_POINTS = 240
"""Of a series: what is longer is joined, neighbour by neighbour."""

RECENT_SECONDS = 30.0
"""Rates are those of so much training, the last."""

_MOST_VALUES = 30
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some steps of one process, told together."""

    at: float  # when it was told, in seconds since the epoch
    step: int  # so many steps the process has done by then
    steps: int
    seconds: float  # of these steps
    longest: float
    examples: int
    waited: float | None  # for data; None: not known
    together: float | None  # for other processes; None: not known
    aside: float = 0.0  # beside these steps, something else was done for so long, such as evaluating
    saving: float = 0.0  # of that, it stood still for a checkpoint
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """Whether it is the first of its process, in which frameworks compile: a step, or those that are done as one."""
        return self.step == self.steps > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Of one replica."""

    replica: str
    windows: Sequence[Window]  # of all its runs
    way: str = ""  # how it was distributed, as its first step has shown
    in_step: int = 1  # so many replicas of the model
    epoch_steps: int | None = None  # None: not known
    framework: str = ""  # torch or keras, as far as it was seen
    loader_workers: int | None = None  # processes that read for it; None: not known

    @property
    def last(self) -> Window:
        """The newest."""
        return self.windows[-1]

    @property
    def runs(self) -> int:
        """How often its program was started: then its steps begin at 1 again."""
        steps = [window.step for window in self.windows if window.steps]  # others hold values alone
        return 1 + sum(later <= earlier for earlier, later in pairwise(steps))

    @property
    def first_seconds(self) -> float | None:
        """How long the very first step took."""
        return next((window.seconds for window in self.windows if window.is_first), None)

    @property
    def recent(self) -> Window:
        """The last half minute of training as one window; without the first step, if there are others."""
        found: Window | None = None
        for window in reversed(self.windows):
            if found is not None and (window.is_first or window.step > found.step or found.seconds >= RECENT_SECONDS):
                break
            found = window if found is None or not found.steps else joined(window, found)
        assert found is not None
        return found

    @property
    def values(self) -> dict[str, float]:
        """What it has reported last, by name."""
        return {name: value for window in self.windows for name, value in window.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """The checkpoints of one attempt, as far as Stoker's own runtime writes them."""

    step: int | None  # of the newest; None: there is none yet
    at: float | None  # when it was whole
    seconds: float | None  # it took so long
    stall_seconds: float | None  # of these, training stood still
    bytes: int
    count: int
    resumed_step: int | None  # where the attempt went on; None: it began anew
    went_on_at: float | None  # when the first step after that was over


def speed_up(training: Sequence[Progress], other: Sequence[Progress]) -> float | None:
    """How many times as quick as another one a training goes through its data. None: they have no measure in common."""
    if not training or not other:
        return None
    for measure in (_epochs_per_second, _examples_per_second):
        speed, base = measure(training), measure(other)
        if speed and base:
            return speed / base
    return None


def _examples_per_second(training: Sequence[Progress]) -> float | None:
    """Of all replicas together."""
    rates = [per_second(progress.recent.examples, progress.recent) for progress in training]
    return sum(rate for rate in rates if rate) if all(rates) else None


def _epochs_per_second(training: Sequence[Progress]) -> float | None:
    steps, rate = training[0].epoch_steps, per_second(training[0].recent.steps, training[0].recent)
    return rate / steps if steps and rate else None


def step_seconds(window: Window) -> float | None:
    """Of a step; None: there was none."""
    return window.seconds / window.steps if window.steps else None


def per_second(count: int, window: Window) -> float | None:
    """A rate; None: it is not known."""
    return count / window.seconds if count and window.seconds > 0 else None


def share(part: float | None, window: Window) -> float | None:
    """Of the time of its steps; None: it is not known."""
    return None if part is None or window.seconds <= 0 else min(1.0, part / window.seconds)


def progress_of(lines: Iterable[tuple[str, str]]) -> list[Progress]:
    """What the replicas of one attempt have told: (replica, line), in the order in which it came."""
    windows: dict[str, list[Window]] = {}
    seen: dict[str, tuple[str, int]] = {}
    epochs: dict[str, int] = {}
    about: dict[str, dict[str, Any]] = {}
    for replica, line in lines:
        told = _told(line)
        if "way" in told:
            seen[replica] = (str(told["way"])[:60], _count(told.get("replicas")) or 1)
            continue
        if _count(told.get("epoch_steps")):
            epochs[replica] = _count(told["epoch_steps"]) or 0
            continue
        if isinstance(told.get("about"), dict):
            about.setdefault(replica, {}).update(told["about"])
            continue
        window = _window(told)
        if window is not None:
            windows.setdefault(replica, []).append(window)
    return [
        Progress(
            replica=name,
            windows=found,
            way=seen.get(name, ("", 1))[0],
            in_step=seen.get(name, ("", 1))[1],
            epoch_steps=epochs.get(name),
            framework=str(about.get(name, {}).get("framework", ""))[:20],
            loader_workers=_count(about.get(name, {}).get("loader_workers")),
        )
        for name, found in sorted(windows.items(), key=lambda item: _order(item[0]))
    ]


def saves_of(lines: Iterable[tuple[str, str]]) -> Saves:
    """What the replicas of one attempt have told of checkpoints."""
    saved: list[dict[str, Any]] = []
    resumed: int | None = None
    went_on_at: float | None = None
    goes_on = ""  # the replica that has told of it first, until its next step
    for replica, line in lines:
        told = _told(line)
        if replica == goes_on and _window(told) is not None:
            went_on_at, goes_on = _number(told.get("t")), ""
        if _count(told.get("saved")) is not None:
            saved.append(told)
        if _count(told.get("resumed")) is not None:
            resumed = _count(told["resumed"])
            goes_on = goes_on or replica
    last = saved[-1] if saved else {}
    return Saves(
        step=_count(last.get("saved")),
        at=_number(last.get("at")),
        seconds=_number(last.get("seconds")),
        stall_seconds=_number(last.get("stall")),
        bytes=_count(last.get("bytes")) or 0,
        count=len(saved),
        resumed_step=resumed,
        went_on_at=went_on_at,
    )


def resumes_of(lines: Iterable[tuple[str, str]]) -> list[tuple[float, int]]:
    """When the programs of one attempt went on from a checkpoint, and from which step."""
    found = [(_number(told.get("at")), _count(told.get("resumed"))) for _, line in lines for told in [_told(line)]]
    return [(at, step) for at, step in found if at is not None and step is not None]


def series(windows: Sequence[Window], most: int = MOST_POINTS) -> list[Window]:
    """The windows, so joined that there are not too many. The first step stays alone."""
    found = list(windows)
    while len(found) > most:
        shorter: list[Window] = []
        for window in found:
            before = shorter[-1] if shorter else None
            if before is not None and len(shorter) % 2 == 0 and not before.is_first and window.step > before.step:
                shorter[-1] = joined(before, window)
            else:
                shorter.append(window)
        if len(shorter) == len(found):
            return found[:: -(-len(found) // most)]  # runs that have one window each
        found = shorter
    return found


def joined(one: Window, other: Window) -> Window:
    """Two that follow each other. What is not known of one is taken to be as in the other."""
    return Window(
        at=other.at,
        step=other.step,
        steps=one.steps + other.steps,
        seconds=one.seconds + other.seconds,
        longest=max(one.longest, other.longest),
        examples=one.examples + other.examples,
        waited=_sum(one, one.waited, other, other.waited),
        together=_sum(one, one.together, other, other.together),
        aside=one.aside + other.aside,
        saving=one.saving + other.saving,
        values={**one.values, **other.values},
    )


def _sum(one: Window, part: float | None, other: Window, other_part: float | None) -> float | None:
    if part is None and other_part is None:
        return None
    whole, known = one.seconds + other.seconds, (part or 0.0) + (other_part or 0.0)
    told = (one.seconds if part is not None else 0.0) + (other.seconds if other_part is not None else 0.0)
    return known * whole / told if told > 0 else known


def _told(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _window(told: Mapping[str, Any]) -> Window | None:
    at, step, steps = _number(told.get("t")), _count(told.get("step")), _count(told.get("steps"))
    seconds, longest = _number(told.get("seconds")), _number(told.get("longest"))
    if at is None or step is None or steps is None or seconds is None or steps > step:
        return None
    named = told.get("values")
    return Window(
        at=at,
        step=step,
        steps=steps,
        seconds=seconds,
        longest=longest or 0.0,
        examples=_count(told.get("examples")) or 0,
        waited=_number(told.get("waited")),
        together=_number(told.get("together")),
        aside=_number(told.get("aside")) or 0.0,
        saving=_number(told.get("saving")) or 0.0,
        values=dict(_values(named)) if isinstance(named, dict) else {},
    )


def _values(named: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for name, value in list(named.items())[:_MOST_VALUES]:
        number = _WORDS.get(value) if isinstance(value, str) else value
        if isinstance(number, int | float) and not isinstance(number, bool):
            try:
                yield name[:60], float(number)
            except OverflowError:  # an integer of hundreds of digits
                yield name[:60], math.copysign(math.inf, 1 if number > 0 else -1)


def _number(value: object) -> float | None:
    """What can be a time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return float(value)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _order(replica: str) -> tuple[int, str, int]:
    """The chief first, then by role and number."""
    role, _, index = replica.rpartition("-")
    return (0 if role in ("chief", "master") else 1, role, int(index) if index.isdigit() else 0)
