"""Loops that go on where the last attempt was, and save at the ends of their steps. stoker/checkpoint.py tells of their use."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from types import FrameType
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional

from stoker.frameworks.messages import STOPPED_EXIT_CODE, say
from stoker.frameworks.metrics.meter import meter, reading
from stoker.frameworks.torch.optimizer_steps import size_of
from stoker.frameworks.verification import nothing_left

from .data_sources import Source
from .interval import Rhythm
from .rng import draw_from, drawn_so_far
from .state import Keeping

_LOOK_SECONDS = 1.0
"""About so often processes that train together ask each other whether to save."""


class Place(NamedTuple):
    """Where in a program its training is."""

    loop: int  # its first, second, … call of `epochs`, `batches` or `steps`
    epoch: int
    batch: int  # of the epoch; in a loop of steps, the step
    processes: int  # among whom the data are shared
    examples: int = 0  # in a batch; 0: not known
    is_over: bool = False  # the loop


class Loops:
    """The loops of one State."""

    def __init__(self, parts: Dict[str, Any], folder: str, variables: Mapping[str, str]) -> None:
        """`parts`: by name, as the program gives them. `folder`: of the checkpoints; empty: nothing is saved."""
        self._keeping = Keeping(parts, folder, variables)
        self._rhythm = Rhythm(variables)
        self.step = 0
        self._has_begun = self._has_restored = False
        self._loop = -1
        self._place = Place(0, 0, 0, 1)
        self._goes_on: Optional[Place] = None  # until the loop that was interrupted has been entered
        self._extra: Dict[str, Any] = {}  # what was saved beside the parts, until then
        self._open = ""  # the loop that the program is in
        self._has_batches = False
        self._source: Optional[Source] = None  # of this epoch
        self._epoch_chance: Optional[Dict[str, Any]] = None  # where chance stood when the epoch began
        self._begun: Optional[Dict[str, Any]] = None  # the state of the source when its first batch was asked for
        self._must_save = self._must_stop = False
        self._ask_at = 0  # at this step it asks the others
        self._ask_every = 1
        self._asked_at = time.monotonic()

    # The loops

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left."""
        first = self._enter("epochs").epoch
        if first >= count and self._goes_on is not None:
            return nothing_left()  # it was over
        with self._within("epochs"):
            for epoch in range(first, count):
                self._place = self._place._replace(epoch=epoch, batch=self._place.batch if epoch == first else 0)
                self._source = None
                if self._goes_on is not None and self._place.batch and self._extra["epoch"] is not None:
                    draw_from(self._extra["epoch"])  # what the program draws before it reads, it draws again
                self._epoch_chance = drawn_so_far()
                yield epoch
                self._goes_on = None
                self.step += int(self._source is None)  # who has no batches trains once an epoch
                self._place = self._place._replace(epoch=epoch + 1, batch=0)
                self._begun = self._epoch_chance = None
                self._look(is_step=False)
            self._leave()

    def batches(self, data: Any) -> Iterator[Any]:
        """The batches that are left of an epoch."""
        if self._open == "epochs":
            if self._source is not None:
                raise ValueError("batches() was called twice in an epoch: use it for what is trained on")
            yield from self._batches(data)
            return
        first = self._enter("batches")
        if self._has_batches:
            raise ValueError(
                "batches() was called twice without epochs(): put `for epoch in state.epochs(…)` around it"
            )
        self._has_batches = True
        if first.is_over:
            nothing_left()
        else:
            with self._within("batches"):
                yield from self._batches(data)
                self._leave()

    def _batches(self, data: Any) -> Iterator[Any]:
        source = self._source = Source(data)
        goes_on, self._goes_on = self._goes_on, None
        done = self._batches_done(goes_on, source.batch_size)
        passes = self._place.epoch if goes_on is not None else 0
        self._place = self._place._replace(batch=done, examples=source.batch_size)
        if done:
            self._begun = self._extra["begun"]
            items = source.enter(self._extra["begun"], self._extra["now"], done, passes)
        else:
            if goes_on is not None:
                source.put_back(self._extra["now"])
            self._begun = source.state()
            items = source.begin(passes)
        for batch in items if self._is_counted() else reading(items):
            yield batch
            self.step += 1
            self._place = self._place._replace(batch=self._place.batch + 1)
            self._count_step(size_of(batch))
            # After the last one the epoch still has its end: who went on here would have no batch to end it with.
            if self._place.batch != source.length or self._open != "epochs":
                self._look()

    def steps(self, count: int) -> Iterator[int]:
        """The steps that are left."""
        first = self._enter("steps").batch
        if first >= count and self._goes_on is not None:
            return
        self._goes_on = None
        with self._within("steps"):
            for step in range(first, count):
                yield step
                self.step += 1
                self._place = self._place._replace(batch=step + 1)
                self._count_step(0)
                self._look()
            self._leave()

    def save(self) -> None:
        """Save now, or at the end of a step if one is in progress; and wait for it."""
        self.begin()
        if self._open:
            self._must_save = True
        elif self._keeping.saving is not None:
            self._save(waits=True)

    def begin(self) -> bool:
        """Restore what there is, once. Returns whether there was something."""
        if not self._has_begun:
            self._has_begun = True
            found = self._keeping.begin()
            if found is not None:
                self._has_restored = True
                self._goes_on = Place(*found.state["place"])
                self.step = self._ask_at = found.step
                self._rhythm.goes_on(float(found.state["trained_seconds"]))
                self._extra = self._keeping.own.extra
                if self._extra["is_own"]:
                    draw_from(self._extra["now"]["chance"])
                else:  # a process that was not there: the order of the data is the others', its chance is its own
                    self._extra["now"] = {**self._extra["now"], "chance": drawn_so_far()}
        return self._has_restored

    # Where it is

    def _enter(self, name: str) -> Place:
        """The next loop begins. Returns where; one before that of the checkpoint has nothing left."""
        if self._open:
            raise ValueError(f"{name}() within {self._open}(): one of the two can be an ordinary loop")
        self.begin()
        self._loop += 1
        count, goes_on = self._keeping.together.count, self._goes_on
        if goes_on is not None and self._loop < goes_on.loop:
            self._place = Place(self._loop, sys.maxsize, sys.maxsize, count, is_over=True)
        elif goes_on is not None and self._loop == goes_on.loop:
            self._place = goes_on._replace(processes=count)
            if self._keeping.is_chief:
                say(f"goes on at step {self.step}" + (f": epoch {goes_on.epoch + 1}" if goes_on.epoch else ""))
        else:
            self._goes_on = None
            self._place = Place(self._loop, 0, 0, count)
        return self._place

    def _leave(self) -> None:
        """A loop has come to its end."""
        self._place, self._begun, self._epoch_chance = self._place._replace(is_over=True), None, None
        if self._keeping.saving is not None:
            self._look(is_step=False)
            self._save(waits=True)

    def _batches_done(self, goes_on: Optional[Place], examples: int) -> int:
        """How many of this epoch's batches are behind this process. Among more processes, or of larger ones, they are fewer."""
        if goes_on is None or not goes_on.batch:
            return 0
        size = (goes_on.examples, examples) if goes_on.examples and examples else (1, 1)
        done, rest = divmod(goes_on.batch * goes_on.processes * size[0], self._keeping.together.count * size[1])
        if rest:
            say(
                f"{rest} examples or batches of this epoch are trained on twice: it is shared in another way than before"
            )
        return done

    def _is_counted(self) -> bool:
        """Whether somebody else tells of the steps: PyTorch's optimizers, or the program."""
        measures = meter()
        return measures is None or bool(measures.kept_by) or self._keeping.is_counted

    def _count_step(self, examples: int) -> None:
        measures = meter()
        if measures is not None and not self._is_counted():
            measures.step(1, examples)

    # When it is saved

    def _look(self, *, is_step: bool = True) -> None:
        """Between two steps: save if it is time, and end if it was told to. What is done here, all processes do alike."""
        keeping, saving = self._keeping, self._keeping.saving
        if saving is None or (is_step and not keeping.is_between_steps()):
            return
        if keeping.together.count > 1 and is_step and self.step < self._ask_at:
            return
        last = saving.last
        saving.tell(self._rhythm)
        told = keeping.together.most(
            [
                float(self._must_stop),
                float(self._must_save),
                float(keeping.is_chief and self._rhythm.is_due),
                float(saving.is_busy),
                float(last is not None and last.has_failed),
                float(self._steps_until_asking() if keeping.is_chief else 0),
            ]
        )
        must_stop, must_save, is_due, is_busy, has_failed = map(bool, told[:5])
        self._ask_at = self.step + int(told[5])
        if has_failed and last is not None:
            last.is_given_up = True
        if must_stop or must_save or (is_due and not is_busy):
            self._save(waits=must_stop or must_save)
        if must_stop:
            self._must_stop = False
            raise SystemExit(STOPPED_EXIT_CODE)

    def _steps_until_asking(self) -> int:
        """So many take about a second. At first, and where steps become slower, it is more careful."""
        now, steps = time.monotonic(), max(1, self._ask_every)
        took, self._asked_at = max(1e-6, now - self._asked_at), now
        self._ask_every = max(1, min(2 * steps, int(steps * _LOOK_SECONDS / took)))
        return self._ask_every

    def _save(self, *, waits: bool = False) -> None:
        """All processes save after the same step. `waits`: until it is on the disk, or cannot be written."""
        self._must_save = False
        now = self._source.state() if self._source is not None else {**_NOWHERE, "chance": drawn_so_far()}
        extra = {"epoch": self._epoch_chance, "begun": self._begun, "now": now}
        told = {"place": list(self._place), "trained_seconds": self._rhythm.trained_seconds}
        self._rhythm.saved(self._keeping.save(self.step, told, extra, waits=waits).stall_seconds)

    @contextmanager
    def _within(self, name: str) -> Iterator[None]:
        """Within a loop TERM is heard at the end of a step. However the program leaves it, afterwards all is as before."""
        own = os.getpid()

        def told_to_stop(number: int, frame: Optional[FrameType]) -> None:
            if os.getpid() != own:  # a child that the program has forked
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self._must_stop = True

        self._open, before = name, None
        try:
            before = signal.signal(signal.SIGTERM, told_to_stop) if self._keeping.saving is not None else None
        except ValueError:
            say("it does not train in its main thread: no checkpoint is written on SIGTERM")
        try:
            yield
        finally:
            self._open = ""
            if self._keeping.saving is not None:
                self._keeping.saving.leave()
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
                if self._must_stop:  # by a TERM after the last look, which is not ours any more
                    self._must_stop = False
                    os.kill(own, signal.SIGTERM)


_NOWHERE: Dict[str, Any] = {"generators": [], "samplers": [], "data": None}
