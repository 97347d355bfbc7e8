"""Steps of training, counted and timed: by the hooks of frameworks, or by a program's own `stoker.step()`.

What a process measures it tells in windows, one line of JSON each, in a file beside that of its beat; the supervisor sends them
on. The first step, in which frameworks compile, has a window of its own; the others grow from a second to a minute. All times are
in seconds.

    {"t": time, "step": steps so far, "steps": 20, "seconds": 1.02, "longest": 0.07, "examples": 640, "waited": 0.3,
     "together": 0.1, "aside": 0.0, "saving": 0.0, "values": {"loss": 0.31}}

`seconds`: of these steps, all in all; `waited` of them for data, `together` for other processes (null: not known). `aside`: what
was done between steps and is no part of them, such as evaluating; `saving` of that, checkpoints were written.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, TypeVar

from stoker.beat_files import STEPS, folder_of
from stoker.frameworks.messages import say
from stoker.frameworks.processes.cluster import cluster_of
from stoker.frameworks.processes.in_step import tell_in_step

from .event_files import EventFile
from .framework_trace import Tracer

SWITCH = "STOKER_STEP_METRICS"
"""A variable of the job's: `none` measures nothing."""

SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
_SHARE = 1 / 100  # of the time so far: the longer it trains, the longer a window
MOST_VALUES = 30
LONGEST_NAME = 60

Item = TypeVar("Item")


class Meter:
    """What one process measures."""

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
        events: Optional[EventFile] = None,
    ) -> None:
        """`write` is given each window's line. `events`: where TensorBoard is to find them, too."""
        self._write = write
        self._events = events
        self._clock = clock
        self._wall = wall
        self._began_at = self._since = clock()
        self._due = 0.0  # the first step is told at once
        self._values: Dict[str, Any] = {}
        self._has_news = False
        self.source: Callable[[], Dict[str, Any]] = dict
        """Asked for values when a window is told."""
        self.own: Optional[Callable[[], float]] = None
        """Asked for the seconds since the last time that this process has not waited for others, when a window is told."""
        self.meets: Optional[Callable[[], bool]] = None
        """Asked with each window whether the process has met others, until it has."""
        self.tracer: Optional[Tracer] = None
        self.about: Dict[str, Any] = {}
        """What the program trains with, by who has seen it: told once, before the first window."""
        self.kept_by = ""  # who says when a step is over; empty: whoever sees one
        self.batch = 0  # examples of a step of this process, as its first step has shown; 0: nobody looked
        self.step_count = 0
        self._mean_seconds = 0.0
        self._epoch_steps = 0
        self.processes = 1  # of this machine that do the same, and say nothing
        self._clear()

    def _clear(self) -> None:
        self._steps, self._seconds, self._longest, self._examples = 0, 0.0, 0.0, 0
        self._waited: Optional[float] = None
        self._together: Optional[float] = None
        self._aside = self._step_aside = self._saving = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next step will be told."""
        return self._clock() >= self._due

    @property
    def window_seconds(self) -> float:
        """How long a window is by now."""
        return max(SHORTEST_SECONDS, min(LONGEST_SECONDS, (self._clock() - self._began_at) * _SHARE))

    @property
    def mean_seconds(self) -> float:
        """Of the steps of the last window that was told."""
        return self._mean_seconds

    def begin(self) -> None:
        """The next step begins now: what was since the last one is no part of it."""
        now = self._clock()
        if self.step_count:
            self._aside += now - self._since
        self._since, self._step_aside = now, 0.0

    def step(self, steps: int = 1, examples: int = 0) -> None:
        """A step is over, or several at once, with so many examples of this process together."""
        now = self._clock()
        took = max(0.0, now - self._since - self._step_aside)
        self._since, self._step_aside = now, 0.0
        self.step_count += steps
        self._steps += steps
        self._seconds += took
        self._examples += examples * self.processes
        each = took / steps
        if each > self._longest:
            self._longest = each
        if now >= self._due:
            self.tell()
        if self.tracer is not None and self.tracer.look(now):
            self._since = self._clock()  # that was no training

    def waited(self, seconds: float) -> None:
        """So long, within this step, it waited for data."""
        self._waited = (self._waited or 0.0) + seconds

    def together(self, seconds: float) -> None:
        """So long, within this step, it waited for other processes, or exchanged something with them."""
        self._together = (self._together or 0.0) + seconds

    def saving(self, seconds: float) -> None:
        """So long, between two steps, it stood still while a checkpoint was written."""
        self._aside += seconds
        self._saving += seconds
        self._step_aside += seconds

    def report(self, values: Dict[str, Any]) -> None:
        """Name values of the training: numbers, or what can become one. They are looked at when they are told, not before."""
        self._values.update(values)
        self._has_news = True

    def note(self, seen: Dict[str, Any]) -> None:
        """Tell what was seen of the training, beside its steps."""
        self._write(json.dumps({"at": round(self._wall(), 3), **seen}))

    def epoch(self, steps: int) -> None:
        """An epoch has so many steps."""
        if steps > 0 and steps != self._epoch_steps:
            self._epoch_steps = steps
            self.note({"epoch_steps": steps})

    def tell(self, *, is_last: bool = False) -> None:
        """Write what there is since the last window. At the end of a process no device is waited for, which may never answer."""
        if not self._steps and not self._has_news:
            return
        if self.meets is not None and self._steps and self.meets():
            self.meets = None
        self._values = {**self.source(), **self._values}
        if self.own is not None and self._steps and not is_last:
            self._together = max(0.0, self._seconds - self.own())
        if self.about:
            self.note({"about": self.about})
            self.about = {}
        now = self._clock()
        found = {
            "t": round(self._wall(), 3),
            "step": self.step_count,
            "steps": self._steps,
            "seconds": round(self._seconds, 6),
            "longest": round(self._longest, 6),
            "examples": self._examples,
            "waited": None if self._waited is None else round(self._waited, 6),
            "together": None if self._together is None else round(self._together, 6),
            "aside": round(self._aside, 6),
            "saving": round(self._saving, 6),
            "values": _numbers(self._values, may_wait=not is_last),
        }
        self._tell_tensorboard(found)
        self._values, self._has_news = {}, False
        self._mean_seconds = self._seconds / self._steps if self._steps else self._mean_seconds
        self._clear()
        # What it took to look at values, which may wait for a device, is measured with the next step, as it would be without us.
        self._due = now + self.window_seconds
        self._write(json.dumps(found))

    def _tell_tensorboard(self, window: Dict[str, Any]) -> None:
        if self._events is None:
            return
        shown = {name: float(value) for name, value in window["values"].items()}
        if self._steps and self._seconds > 0:
            shown["stoker/steps_per_second"] = self._steps / self._seconds
            if self._examples:
                shown["stoker/examples_per_second"] = self._examples / self._seconds
            if self._waited is not None:
                shown["stoker/data_wait_share"] = self._waited / self._seconds
        try:
            self._events.write(self.step_count, window["t"], shown)
        except OSError as error:
            say(f"TensorBoard's files cannot be written: {error}")
            self._events = None


def _numbers(values: Dict[str, Any], *, may_wait: bool) -> Dict[str, Any]:
    """Values as numbers. Those that are none are words: `nan`, `inf`, `-inf`; what cannot be a number is left out.

    So is what other processes would have to help with (a DTensor): they do not know that we look.
    """
    found: Dict[str, Any] = {}
    for name, value in values.items():
        if hasattr(value, "device_mesh") or (not may_wait and getattr(value, "is_cuda", False)):
            continue
        try:
            number = float(value)
        except Exception:  # whatever an array of many elements says to it
            continue
        found[str(name)[:LONGEST_NAME]] = number if math.isfinite(number) else str(number)
        if len(found) == MOST_VALUES:
            break
    return found


_meters: Dict[int, Optional[Meter]] = {}  # by process, so that one that is forked has its own


def meter() -> Optional[Meter]:
    """The meter of this process; None: nothing is to be measured, or nobody would hear of it."""
    own = os.getpid()
    if own not in _meters:
        _meters[own] = _new_meter()
    return _meters[own]


def _new_meter() -> Optional[Meter]:
    folder, own = folder_of(os.environ), os.getpid()
    if not folder or os.environ.get(SWITCH) == "none":
        return None
    told = _File(os.path.join(folder, STEPS))
    found = Meter(told.write, events=_events())
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    found.processes = max(1, int(local)) if local.isdigit() else 1
    found.tracer = Tracer(folder, told.is_ours)
    found.meets = tell_in_step

    def tell_the_last() -> None:
        """A fork ends with this, too, and has nothing to tell of its parent's."""
        if os.getpid() == own:
            found.tell(is_last=True)

    atexit.register(tell_the_last)
    return found


def _events() -> Optional[EventFile]:
    """The chief's event file, in the job's directory, if that is a folder here: each attempt is a run."""
    folder = os.environ.get("AIP_TENSORBOARD_LOG_DIR", "")
    if not folder or "://" in folder or not cluster_of(os.environ).is_chief:
        return None
    return EventFile(os.path.join(folder, "steps", f"attempt-{os.environ.get('STOKER_ATTEMPT', '1')}"))


class _File:
    """The file of windows, in which one process of a replica writes: the first whose step is over."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._is_anothers = False

    def is_ours(self) -> bool:
        """Whether it is this process that writes it."""
        return self._descriptor >= 0 and not self._is_anothers

    def write(self, line: str) -> None:
        """Add a line, unless the file is another process's."""
        if self._is_anothers:
            return
        try:
            if self._descriptor < 0:
                import fcntl  # where jobs run, it is there; where somebody only tries a program, perhaps not

                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._descriptor, line.encode() + b"\n")
        except BlockingIOError:
            self._is_anothers = True
        except OSError as error:
            say(f"steps are not told: {error}")


def tell_saved(step: int, stall_seconds: float, whole_seconds: float, size_bytes: int) -> None:
    """A checkpoint of this step is on the disk: for `stall_seconds` training stood, and it took `whole_seconds`."""
    found = meter()
    if found is not None:
        found.note({"saved": step, "seconds": whole_seconds, "stall": stall_seconds, "bytes": size_bytes})


def tell_resumed(step: int) -> None:
    """Training goes on from the checkpoint of this step."""
    found = meter()
    if found is not None:
        found.note({"resumed": step})


def step(examples: int = 0, **values: Any) -> None:
    """Say that a step of training is over, in a loop of the program's own.

    `examples`: so many it has trained on. Values, such as `loss`, may be numbers, or arrays of one on a device: they are looked
    at now and then only. Does nothing outside of a job.
    """
    found = meter()
    if found is not None:
        found.kept_by = "the program"
        if values:
            found.report(values)
        found.step(1, int(examples))


def report(**values: Any) -> None:
    """Name values of the training, such as `loss=loss`, that `stoker metrics` is to show. Does nothing outside of a job."""
    found = meter()
    if found is not None:
        found.report(values)


def length_of(data: Any) -> int:
    """How many items data have; 0: that is not known."""
    try:
        return len(data)
    except Exception:  # a stream, whatever it says of itself
        return 0


def reading(data: Iterable[Item]) -> Iterator[Item]:
    """Go through data, and measure how long the training waits for it: `for batch in stoker.reading(loader)`."""
    found = meter()
    items, length = iter(data), length_of(data) if found is not None else 0
    while True:
        began = time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        if found is None:
            yield item
            continue
        found.waited(time.perf_counter() - began)
        steps = found.step_count
        yield item
        if found.step_count == steps + 1:  # one for each item, so these are what it trains on
            found.epoch(length)
