"""Loops that go on where the last attempt was, and save at the ends of their steps. stoker/checkpoint.py tells of their use."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from types import FrameType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from .agreement import Alone, agreement
from .chance import draw_from, drawn_so_far
from .checkpoints import Checkpoint, Checkpoints
from .cluster import cluster_of
from .interval import Rhythm
from .jax_parts import JaxParts, holds_arrays
from .parts import Objects, Part, another_program, has_state
from .saving import Saving
from .sources import Source
from .steps import meter, reading, tell_resumed
from .torch_parts import TorchParts, steps_parameters_of
from .torch_steps import size_of
from .variable_parts import VariableParts, is_trained
from .words import Refused, say

STOPPED_EXIT_CODE = 143
"""128 + SIGTERM: it was told to stop, has saved, and is to be run again."""

_LOOK_SECONDS = 1.0
"""About so often processes that train together ask each other whether to save."""


class Place(NamedTuple):
    """Where in a program its training is."""

    loop: int  # its first, second, … call of `epochs`, `batches` or `steps`
    epoch: int
    batch: int  # of the epoch; in a loop of steps, the step
    processes: int  # among whom the data are shared
    is_over: bool = False  # the loop


class Loops:
    """Those of one program."""

    def __init__(self, parts: Dict[str, Any], folder: str, variables: Mapping[str, str]) -> None:
        """`parts`: by name, as the program gives them. `folder`: of the checkpoints; empty: nothing is saved."""
        self._parts = parts
        self._folder = folder
        self._cluster = cluster_of(variables)
        self._rhythm = Rhythm(variables)
        self.step = 0
        self._has_begun = self._has_restored = False
        self._loop = -1
        self._place = Place(0, 0, 0, 1)
        self._goes_on: Optional[Place] = None  # until the loop that was interrupted has been entered
        self._is_in_epochs = False
        self._source: Optional[Source] = None  # of this epoch
        self._begun: Optional[Dict[str, Any]] = None  # its state when the epoch began
        self._agreement = Alone()
        self._saving: Optional[Saving] = None
        self._kinds: List[Part] = []
        self._own: Objects
        self._is_in_loop = self._must_save = self._must_stop = False
        self._ask_at = 0  # at this step it asks the others
        self._ask_every = 1
        self._asked_at = time.monotonic()

    # The loops

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left."""
        if self._is_in_epochs:
            raise ValueError("epochs() within epochs(): the inner loop can be an ordinary one")
        first = self._enter().epoch
        if first >= count and self._goes_on is not None:
            return  # it was over
        self._is_in_epochs = True
        with self._hears_term():
            try:
                for epoch in range(first, count):
                    self._place = self._place._replace(epoch=epoch, batch=self._place.batch if epoch == first else 0)
                    self._source = None
                    yield epoch
                    self._goes_on = None
                    self.step += int(self._source is None)  # who has no batches trains once an epoch
                    self._place = self._place._replace(epoch=epoch + 1, batch=0)
                    self._begun = None
                    self._look(is_step=False)
            finally:
                self._is_in_epochs = False
        self._leave()

    def batches(self, data: Any) -> Iterator[Any]:
        """The batches that are left of an epoch."""
        if self._is_in_epochs:
            if self._source is not None:
                raise ValueError("batches() was called twice in an epoch: use it for what is trained on")
            yield from self._batches(data)
        elif not self._enter().is_over:
            with self._hears_term():
                yield from self._batches(data)
            self._leave(saves=False)  # there may be many of them

    def _batches(self, data: Any) -> Iterator[Any]:
        source = self._source = Source(data)
        goes_on, self._goes_on = self._goes_on, None
        done, extra = self._batches_done(goes_on), self._own.extra if goes_on is not None else {}
        self._place = self._place._replace(batch=done)
        if done and extra:
            self._begun = extra["begun"]
            items = source.enter(extra["begun"], extra["now"], done)
        else:
            if extra:
                source.put_back(extra["now"])
            self._begun = source.state()
            items = iter(data)
        for batch in items if self._is_counted() else reading(items):
            yield batch
            self.step += 1
            self._place = self._place._replace(batch=self._place.batch + 1)
            self._count_step(size_of(batch))
            self._look()

    def steps(self, count: int) -> Iterator[int]:
        """The steps that are left."""
        first = self._enter().batch
        if first >= count and self._goes_on is not None:
            return
        self._goes_on = None
        with self._hears_term():
            for step in range(first, count):
                yield step
                self.step += 1
                self._place = self._place._replace(batch=step + 1)
                self._count_step(0)
                self._look()
        self._leave()

    def save(self) -> None:
        """Save now, or at the end of the step that is in progress; and wait for it."""
        self.begin()
        if self._is_in_loop:
            self._must_save = True
        elif self._saving is not None:
            self._save(waits=True)

    def begin(self) -> bool:
        """Restore what there is, once. Returns whether there was something."""
        if self._has_begun:
            return self._has_restored
        self._has_begun = True
        if not self._folder:
            if self._cluster.rank >= 0 and os.environ.get("STOKER_JOB_ID"):
                say("nothing is saved: the job has no directory (--job-dir)")
            return False
        jax: Any = sys.modules.get("jax")
        uses_jax = jax is not None and any(holds_arrays(jax, value) for value in self._parts.values())
        self._agreement = agreement(jax if uses_jax else None)
        folder, together = self._folder, self._agreement
        if together.count == 1 and self._cluster.processes > 1:
            folder = os.path.join(folder, f"alone-{self._cluster.rank}")
            say(f"its processes train each by itself, as far as can be seen: this one saves in {folder}")
        checkpoints = Checkpoints(folder)
        self._kinds = self._kinds_of(jax if uses_jax else None)
        attempt = f"{os.environ.get('STOKER_ATTEMPT', '0')}-{os.environ.get('STOKER_RESTART_COUNT', '0')}"
        self._saving = Saving(checkpoints, together.rank, together.count, attempt)
        found = self._agreed(checkpoints)
        if found is not None:
            self._restore(found)
        self._has_restored = found is not None
        return self._has_restored

    # Where it is

    def _enter(self) -> Place:
        """The next loop begins. Returns where; one before that of the checkpoint has nothing left."""
        self.begin()
        self._loop += 1
        goes_on = self._goes_on
        if goes_on is not None and self._loop < goes_on.loop:
            self._place = Place(self._loop, sys.maxsize, sys.maxsize, self._agreement.count, is_over=True)
        elif goes_on is not None and self._loop == goes_on.loop:
            self._place = goes_on._replace(processes=self._agreement.count)
            if not self._agreement.rank:
                say(f"goes on at step {self.step}" + (f": epoch {goes_on.epoch + 1}" if goes_on.epoch else ""))
        else:
            self._goes_on = None
            self._place = Place(self._loop, 0, 0, self._agreement.count)
        return self._place

    def _leave(self, *, saves: bool = True) -> None:
        """A loop has come to its end. `saves`: also if it is not time to."""
        self._place, self._begun = self._place._replace(is_over=True), None
        if self._saving is not None:
            self._look(is_step=False)
            if saves:
                self._save(waits=True)

    def _batches_done(self, goes_on: Optional[Place]) -> int:
        """How many of this epoch's batches are behind this process. Among more processes, each has had fewer."""
        if goes_on is None or goes_on.processes == self._agreement.count:
            return goes_on.batch if goes_on is not None else 0
        done, rest = divmod(goes_on.batch * goes_on.processes, self._agreement.count)
        if rest:
            say(
                f"{rest} batches of this epoch are trained on twice: {goes_on.processes} processes shared it, now "
                f"{self._agreement.count} do"
            )
        return done

    def _is_counted(self) -> bool:
        """Whether somebody else tells of the steps: PyTorch's optimizers, or the program."""
        measures = meter()
        return measures is None or bool(measures.kept_by) or any(isinstance(kind, TorchParts) for kind in self._kinds)

    def _count_step(self, examples: int) -> None:
        measures = meter()
        if measures is not None and not self._is_counted():
            measures.step(1, examples)

    # What is saved

    def _kinds_of(self, jax: Any) -> List[Part]:
        """The parts, by who saves them."""
        left, together = dict(self._parts), self._agreement
        kinds: List[Part] = []
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            models = {name: value for name, value in left.items() if isinstance(value, torch.nn.Module)}
            optimizers = {
                name: value
                for name, value in left.items()
                if isinstance(value, torch.optim.Optimizer) and steps_parameters_of(value, list(models.values()))
            }
            if models:
                kinds.append(TorchParts(torch, models, optimizers, together.rank, together.count))
                left = {name: value for name, value in left.items() if name not in {*models, *optimizers}}
        with_variables = {name: value for name, value in left.items() if not has_state(value) and is_trained(value)}
        if with_variables:
            kinds.append(VariableParts(with_variables, together.rank))
            left = {name: value for name, value in left.items() if name not in with_variables}
        if jax is not None:
            names = [name for name, value in left.items() if not has_state(value) and holds_arrays(jax, value)]
            if names:
                kinds.append(JaxParts(jax, self._parts, names, together.rank, together.count))
                left = {name: value for name, value in left.items() if name not in names}
        self._own = Objects(self._parts, sorted(left), together.rank)
        return [*kinds, self._own]

    def _kinds_by_name(self) -> Dict[str, str]:
        """What is said of the parts beside them: of what kind each is."""
        return {name: kind.name for kind in self._kinds for name in kind.names}

    def _agreed(self, checkpoints: Checkpoints) -> Optional[Checkpoint]:
        """The checkpoint to begin from: the chief's choice, for all."""
        together = self._agreement
        found = None
        if not together.rank:
            checkpoints.sweep()
            found = checkpoints.latest()
        (step,) = together.most([found.step + 1 if found is not None else 0])
        if together.rank and step:
            found = checkpoints.at(int(step) - 1, is_proved=True)
            if found is None:
                raise Refused(
                    f"the chief goes on at step {int(step) - 1}, and that checkpoint is not to be found here "
                    f"({checkpoints.folder})",
                    "give a --job-dir that all machines share",
                )
        return found

    def _restore(self, found: Checkpoint) -> None:
        told, ours = found.state, self._kinds_by_name()
        for name in sorted({*told["parts"], *ours}):
            if told["parts"].get(name) != ours.get(name):
                was, now = told["parts"].get(name, "missing"), ours.get(name, "missing")
                raise another_program(found, f"its {name} is {was}, the program's {now}")
        try:
            for kind in self._kinds:
                kind.restore(found)
        except OSError as error:
            raise Refused(
                f"the checkpoint of step {found.step} cannot be read: {error}", "see whether its folder is there"
            ) from None
        self._goes_on = Place(*told["place"])
        self.step = self._ask_at = found.step
        self._rhythm.goes_on(float(told["trained_seconds"]))
        if self._own.extra:
            draw_from(self._own.extra["now"]["chance"])
        tell_resumed(found.step)

    # When it is saved

    def _look(self, *, is_step: bool = True) -> None:
        """Between two steps: save if it is time, and end if it was told to. What is done here, all processes do alike."""
        if self._saving is None:
            return
        if self._must_save:  # all say so after the same step
            self._must_save = False
            self._save(waits=True)
        if self._agreement.count > 1 and is_step and self.step < self._ask_at:
            return
        last, is_chief = self._saving.last, not self._agreement.rank
        told = self._agreement.most(
            [
                float(self._must_stop),
                float(is_chief and self._rhythm.is_due),
                float(self._saving.is_busy),
                float(last is not None and last.has_failed),
                float(self._steps_until_asking() if is_chief else 0),
            ]
        )
        must_stop, is_due, is_busy, has_failed = map(bool, told[:4])
        self._ask_at = self.step + int(told[4])
        if has_failed and last is not None:
            last.is_given_up = True
        if must_stop:
            self._save(waits=True)
            raise SystemExit(STOPPED_EXIT_CODE)
        if is_due and not is_busy:
            self._save()

    def _steps_until_asking(self) -> int:
        """So many take about a second. At first, and where steps become slower, it is more careful."""
        now, steps = time.monotonic(), max(1, self._ask_every)
        took, self._asked_at = max(1e-6, now - self._asked_at), now
        self._ask_every = max(1, min(2 * steps, int(steps * _LOOK_SECONDS / took)))
        return self._ask_every

    def _save(self, *, waits: bool = False) -> None:
        """All processes save after the same step. `waits`: until it is on the disk, or cannot be written."""
        saving, together = self._saving, self._agreement
        assert saving is not None
        saving.wait()
        now = self._source.state() if self._source is not None else {**_NOWHERE, "chance": drawn_so_far()}
        self._own.extra = {"begun": self._begun, "now": now}
        told = {
            "place": list(self._place),
            "trained_seconds": self._rhythm.trained_seconds,
            "parts": self._kinds_by_name(),
        }
        saved = saving.start(self.step, told, self._kinds)
        if waits:
            saved.has_written.wait()
            (saved.is_given_up,) = map(bool, together.most([float(saved.has_failed)]))
            saving.wait()
        measures = meter()
        if measures is not None:
            measures.aside(saved.stall_seconds)
        self._rhythm.saved(saved.stall_seconds, saved.whole_seconds)

    @contextmanager
    def _hears_term(self) -> Iterator[None]:
        """Within a loop TERM is heard at the end of a step. However the program leaves it, afterwards all is as before."""

        def told_to_stop(number: int, frame: Optional[FrameType]) -> None:
            self._must_stop = True

        self._is_in_loop, before = True, None
        try:
            before = signal.signal(signal.SIGTERM, told_to_stop) if self._saving is not None else None
        except ValueError:
            say("it does not train in its main thread: it is not saved when it is told to stop")
        try:
            yield
        finally:
            self._is_in_loop = False
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)


_NOWHERE: Dict[str, Any] = {"generators": [], "samplers": [], "data": None}
