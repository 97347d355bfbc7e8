"""`fit` of Keras that goes on where it was interrupted: at the same batch of the same order, with the same state.

Keras' own BackupAndRestore goes back to the beginning of the epoch with the weights of its middle. Here the order of examples is
drawn from a seed for each epoch, so that an epoch can be entered anywhere; what is saved is all that a step changes.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

from stoker.frameworks.checkpointing.checkpoints import Checkpoint, Checkpoints
from stoker.frameworks.checkpointing.interval import Rhythm
from stoker.frameworks.checkpointing.remote import checkpoints_at
from stoker.frameworks.checkpointing.saving import Saving as Writing
from stoker.frameworks.keras.chief_files import as_list
from stoker.frameworks.keras.composed_models import build_optimizers, optimizers_of
from stoker.frameworks.keras.data import py_dataset as numbered
from stoker.frameworks.keras.data.epoch_order import Course, Place, Reached, Read
from stoker.frameworks.keras.fit import Call, surround_fit
from stoker.frameworks.keras.protocols import Model, Variable
from stoker.frameworks.messages import NotNow, Refused, passes, say
from stoker.frameworks.metrics.meter import tell_resumed
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.verification import nothing_left

from . import state_files as files
from .fit_saver import Saving, set_rate

_DEFAULT_BATCH = 32  # of Keras


class Resume(ABC):
    """Stands around `fit`: every call of a program in turn, from whichever the last attempt was in."""

    def __init__(self, keras: Any, nest: Any, cluster: Cluster, folder: str, rhythm: Rhythm) -> None:
        """`nest`: maps structures of arrays. `folder`: of all checkpoints of the program. `rhythm`: when to save."""
        self._keras = keras
        self._nest = nest
        self._cluster = cluster
        self._folder = folder
        self._checkpoints: Checkpoints  # of the call that goes on
        self._writing: Writing  # there
        self._newest = 0  # the number of the one that was begun last there
        self.rhythm = rhythm
        self._calls = 0
        self._counted: List[Any] = []  # by metrics, in the epoch that was interrupted
        self._chance: Dict[str, Any] = {}  # of the data of the call that goes on
        # What calls that are over have read of data, by id: this attempt has left it out.
        self._owed: Dict[int, Tuple[Any, List[Read]]] = {}

    def put_in_place(self) -> None:
        """From now on every `fit` goes on from where the last attempt was."""
        surround_fit(self._keras, "resume", self._train)

    def _train(self, call: Call, fit: Callable[[], Any]) -> Any:
        callbacks = as_list(call.asked.get("callbacks"))
        if callbacks is None:
            say("its callbacks are in a CallbackList of its own: it is not saved")
            return fit()
        call.asked["callbacks"] = callbacks
        return self._run(call.model, call.asked, call.data, fit)

    def _run(self, model: Model, asked: Dict[str, Any], data: Any, fit: Callable[[], Any]) -> Any:
        """Call `fit` with what is `asked`, changed so that it goes on."""
        call, self._calls = self._calls, self._calls + 1
        asked["callbacks"] = [one for one in asked["callbacks"] if not _goes_back(one)]
        self._checkpoints = checkpoints_at(os.path.join(self._folder, f"call-{call}"))
        self._writing = Writing(self._checkpoints, 0, 1, f"{os.getpid()}-{time.time_ns()}")
        found = self._agreed(model)
        place = Place(asked.get("initial_epoch", 0), 0)
        history: Dict[str, Any] = {"epoch": [], "history": {}}
        with self._scope(model):
            if not self._build(model, asked, must=found is not None):
                return fit()
        reached, self._chance = Reached(0, 0), {}
        if found is not None:
            self._restore(model, found)
            best = files.best_weights(found)
            self._checkpoints.release(found)
            self._build_metrics(model, asked)
            place, history = Place(*found.state["place"]), found.state["history"]
            reached = Reached(*found.state.get("reached", reached))
            self.rhythm.goes_on(found.state.get("trained_seconds", 0.0))
            is_over = found.state["is_over"] and place.epoch >= asked.get("epochs", 1)
            if is_over or found.state.get("is_stopped"):
                read = Read(found.state.get("made", 0), reached.steps)
                self._owed.setdefault(id(data), (data, []))[1].append(read)
                nothing_left()
                return self._as_it_was(model, history)
            tell_resumed(found.state["step"])
        unit = self._unit(asked)
        if found is not None:
            place, reached = self._entered(
                model, found, place, reached, unit, asked.get("batch_size") or _DEFAULT_BATCH
            )
        known = {**found.state, "best_weights": best} if found is not None else {}
        saving = Saving(self, model, place, history, asked["callbacks"], known)
        course: Optional[Course] = None
        if unit == "examples":
            batch = asked.get("batch_size") or _DEFAULT_BATCH
            course = self._in_order(asked, batch, call, lambda: saving.place)
        elif unit == "batches":
            seed = abs(self._seed()), call
            course = numbered.put_in_order(self._keras, asked, seed, lambda: saving.place, self._chance)
        elif unit == "steps":
            _, owed = self._owed.pop(id(data), (data, []))
            course = self._passes(asked, owed, reached, place.done)
            course.found_steps = found.state.get("found_steps", 0) if found is not None else 0
        asked["initial_epoch"] = place.epoch
        asked["callbacks"] = [*asked["callbacks"], saving.callback(self._keras)]
        try:
            with saving.hears_term(course), self._entering(model, place, course):
                told = fit()
        finally:
            self._writing.leave()
        saving.end(asked.get("epochs", 1))
        told.epoch, told.history = saving.history["epoch"], saving.history["history"]
        return told

    def _unit(self, asked: Dict[str, Any]) -> str:
        """What places within an epoch are counted in; empty: it cannot be entered."""
        if self._is_arrays(asked):
            return "examples"
        if numbered.is_numbered(self._keras, asked):
            return "batches"
        return "steps" if self._is_stream(asked) else ""

    # What differs between Keras 3 and tf_keras

    numbers_the_rest_anew = True
    """Whether the first batch of what is left of an epoch is number 0."""

    reads_parts = False
    """Whether each process is given a part of the examples, and counts those."""

    has_paths = True
    """Whether variables have some, which are longer than names. To ask one of TensorFlow, on several machines, would read it."""

    @abstractmethod
    def _scope(self, model: Model) -> ContextManager[Any]:
        """Within it variables are made and set."""

    @abstractmethod
    def _replicas(self, model: Model) -> int:
        """So many train in step."""

    @abstractmethod
    def _chosen(self, model: Model, number: int) -> int:
        """The chief's number, asked for by all of several replicas at once."""

    @abstractmethod
    def _seed(self) -> int:
        """The program's own, if it has set one."""

    @abstractmethod
    def _first(self, asked: Dict[str, Any]) -> Any:
        """A batch of one example, or the first, as the model is called with."""

    @abstractmethod
    def _zeros(self, asked: Dict[str, Any]) -> Any:
        """A batch, of which shapes and types count; one that is read would be missed."""

    @abstractmethod
    def settle(self, model: Model) -> None:
        """See to it that its variables can be read."""

    @abstractmethod
    def _read(self, model: Model, variable: Variable) -> Any:
        """A copy of its value on this process, with no word to others: they may be in the next step already."""

    @abstractmethod
    def _is_arrays(self, asked: Dict[str, Any]) -> bool:
        """Whether `fit` is given examples that can be taken in any order."""

    @abstractmethod
    def _in_order(self, asked: Dict[str, Any], batch: int, call: int, place: Callable[[], Place]) -> Course:
        """Let it take them in an order of ours. `batch`: examples in a step, of all replicas that this process feeds."""

    @abstractmethod
    def _is_stream(self, asked: Dict[str, Any]) -> bool:
        """Whether it is given what is read from its beginning, in a way that is known."""

    @abstractmethod
    def _passes(self, asked: Dict[str, Any], owed: List[Read], reached: Reached, done: int) -> Course:
        """The passes that it makes through them, as dataset_passes.py has them."""

    def _entering(self, model: Model, place: Place, course: Optional[Course]) -> ContextManager[None]:
        """Within it `fit` begins there."""
        return course.stand_in() if course is not None else nullcontext()

    # The state

    def _entered(
        self, model: Model, found: Checkpoint, place: Place, reached: Reached, unit: str, batch: int
    ) -> Tuple[Place, Reached]:
        """Where it goes on, and say so. `unit`: of places within an epoch; empty: there are none. `batch`: of all replicas."""
        replicas = self._replicas(model)
        why = ""
        if place.done and not unit:
            why = "what it trains on cannot be entered in the middle"
        elif (
            (place.done or reached.steps)
            and (unit == "steps" or self.reads_parts)
            and found.state["replicas"] != replicas
        ):
            why = f"the {unit} of {found.state['replicas']} replicas are not those of {replicas}"
        elif unit == "examples" and not self.numbers_the_rest_anew and place.done % batch:
            why = f"{place.done} examples are no number of batches of {batch}"
        if why:
            place, reached = Place(place.epoch, 0), Reached(reached.passes, 0)
        if self._cluster.is_chief:
            where = f"{place.done} {unit} into it" if unit else "from its beginning"
            say(f"goes on at step {found.state['step']}: epoch {place.epoch + 1}, {where}")
            if why:
                say(f"{why}: the interrupted epoch begins anew")
        return place, reached

    def _agreed(self, model: Model) -> Optional[Checkpoint]:
        """The checkpoint to begin from: the chief's choice, for all."""
        is_alone = self._cluster.processes == 1 or self._replicas(model) == 1
        found = self._found() if is_alone or self._cluster.is_chief else None
        if is_alone:
            return found
        step = self._chosen(model, found.step + 1 if found is not None else 0) - 1
        if step < 0:
            return None
        theirs = found if self._cluster.is_chief else self._found(step)
        if theirs is None:
            raise Refused(
                f"the chief goes on at step {step}, and that checkpoint is not to be found here ({self._checkpoints.place})",
                "give a --job-dir that all machines share",
            )
        return theirs

    def _found(self, step: int = -1) -> Optional[Checkpoint]:
        """The one of a step, or the newest."""
        try:
            if step >= 0:
                return self._checkpoints.at(step)
            if self._cluster.is_chief:
                with suppress(OSError):  # nothing depends on it
                    self._checkpoints.sweep()
            self._newest = self._checkpoints.newest()
            return self._checkpoints.latest()
        except OSError as error:
            why = f"{self._checkpoints.place} cannot be used: {error}"
            if passes(error):
                raise NotNow(why) from None
            raise Refused(why, "give a --job-dir that may be written to and read") from None

    def _build(self, model: Model, asked: Dict[str, Any], *, must: bool) -> bool:
        """Make all variables now, so that they can be filled. `must`: Raises Refused if that cannot be, else it is said."""
        try:
            if type(model).call is self._keras.Model.call:
                build_optimizers(self._keras, model)  # its steps call the models that it is made of
                return True
            if not model.built:
                data = asked["x"]
                is_numbered = numbered.is_numbered(self._keras, asked)
                model(numbered.inputs_of(data) if is_numbered else self._first(asked))
            for optimizer in [model.optimizer] if model.optimizer is not None else []:
                build = getattr(optimizer, "build", None) or optimizer._create_all_weights  # those of long ago
                build(model.trainable_variables)
        except Exception as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            why = f"the model cannot be built before it trains, so that its checkpoint has no place ({first})"
            if must:
                raise Refused(why, "give it an Input, or train it from arrays") from None
            say(f"{why}: it is not saved")
            return False
        return True

    def _build_metrics(self, model: Model, asked: Dict[str, Any]) -> None:
        """Make their variables now, as Keras would at the first step."""
        try:
            is_numbered = numbered.is_numbered(self._keras, asked)
            self._count_once(model, numbered.first_of(asked["x"]) if is_numbered else self._zeros(asked))
        except Exception:
            return  # then they count what is left of the epoch alone

    def _count_once(self, model: Model, batch: Any) -> None:
        """Have all metrics make their variables, as if they had counted a batch."""
        model._symbolic_build(data_batch=batch)

    def _inner(self, model: Model) -> List[Any]:
        """The optimizers that step: not what scales the loss for one."""
        return [getattr(optimizer, "inner_optimizer", optimizer) for optimizer in optimizers_of(self._keras, model)]

    def _kinds(self, model: Model) -> List[str]:
        return [type(optimizer).__name__ for optimizer in self._inner(model)]

    def _variables(self, model: Model) -> List[Any]:
        kept = [optimizer.variables for optimizer in optimizers_of(self._keras, model)]
        of_optimizers = [variable for some in kept for variable in (some() if callable(some) else some)]
        return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizers]

    def _restore(self, model: Model, found: Checkpoint) -> None:
        self._chance, self._counted = files.chance(found), files.metrics(found)
        variables = self._variables(model)
        values = files.values(found, [tuple(variable.shape) for variable in variables], self._kinds(model))
        with self._scope(model):
            for variable, value in zip(variables, values):
                variable.assign(value)
            set_rate(model, found.state)

    def _metrics(self, model: Model) -> List[Any]:
        """What metrics have counted in this epoch. On several replicas it is each one's own, and stays with them."""
        return list(getattr(model, "metrics_variables", ())) if self._replicas(model) == 1 else []

    def restore_metrics(self, model: Model) -> None:
        """Of the epoch that was interrupted, whose beginning they would not know."""
        variables, arrays = self._metrics(model), self._counted
        if [tuple(variable.shape) for variable in variables] == [array.shape for array in arrays]:
            for variable, array in zip(variables, arrays):
                variable.assign(array)

    def whole_seconds(self) -> float:
        """Until the last one counted; 0: that is not known."""
        self._writing.tell(self.rhythm)
        return self._writing.last.whole_seconds if self._writing.last is not None else 0.0

    def is_due(self) -> bool:
        """Whether it is time to save, and the one before is written."""
        self._writing.tell(self.rhythm)
        return self.rhythm.is_due and not self._writing.is_busy

    def save(
        self, model: Model, state: Dict[str, Any], best: Dict[int, List[Any]], chance: Dict[str, Any], *, waits: bool
    ) -> float:
        """Write a checkpoint beside the training, if this is the chief. `best`: weights that callbacks keep, by their number.

        `chance`: of the course. `waits`: until it counts. Returns for how long training stood.
        """
        if not self._cluster.is_chief:
            return 0.0
        began = time.monotonic()
        self._writing.wait()
        variables = self._variables(model)
        arrays = [self._read(model, variable) for variable in [*variables, *self._metrics(model)]]
        names = [variable.path if self.has_paths else variable.name for variable in variables]
        counts = [getattr(optimizer, "_iterations", optimizer.iterations) for optimizer in self._inner(model)]
        steps = [int(self._read(model, count)) for count in counts]  # not what gradient_accumulation_steps makes of it
        metrics, arrays = arrays[len(variables) :], arrays[: len(variables)]
        step = max(steps, default=0)
        state = {
            **state,
            "step": step,
            "variables": [[name, list(a.shape), str(a.dtype)] for name, a in zip(names, arrays)],
            "optimizers": self._kinds(model),
            "replicas": self._replicas(model),
            "trained_seconds": self.rhythm.trained_seconds,
            "best_weights": {number: len(weights) for number, weights in best.items()},
        }
        stage = files.staged(arrays, metrics, best, chance)
        # By its step, but for one that was done before: a program may go back to weights of its own.
        self._newest = max(step, self._newest + 1)
        self._writing.start(self._newest, state, [stage], began)
        if waits:
            self._writing.wait()
        return time.monotonic() - began

    def is_chief(self) -> bool:
        """Whether this process saves. The others go on until it has gone: without them it could not end its step."""
        return self._cluster.is_chief

    def _as_it_was(self, model: Model, history: Dict[str, Any]) -> Any:
        """A call that an earlier attempt has brought to its end: its model is as it was then, and so is its history."""
        told = self._keras.callbacks.History()
        told.set_model(model)
        told.epoch, told.history = history["epoch"], history["history"]
        return told


def _goes_back(callback: Any) -> bool:
    """Whether it would go back to the beginning of the epoch: Keras' BackupAndRestore, which is left out."""
    is_so = type(callback).__name__ == "BackupAndRestore"
    if is_so:
        say(
            "BackupAndRestore is left out: --checkpoints goes on at the batch, and it would go back to the epoch's beginning"
        )
    return is_so
