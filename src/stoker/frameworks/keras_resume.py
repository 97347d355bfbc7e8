"""`fit` of Keras that goes on where it was interrupted: at the same batch of the same order, with the same state.

Keras' own BackupAndRestore goes back to the beginning of the epoch with the weights of its middle. Here the order of examples is
drawn from a seed for each epoch, so that an epoch can be entered anywhere; what is saved is all that a step changes.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

from .checkpoints import Checkpoint, Checkpoints
from .cluster import Cluster
from .interval import Rhythm
from .keras_composed import build_optimizers
from .keras_order import Course, Place, Reached, Read, is_arrays, put_in_order
from .keras_passes import Passes, is_stream
from .keras_saving import Saving
from .parts import Write
from .saving import Saving as Writing
from .steps import tell_resumed
from .stored import checkpoints_at
from .words import NotNow, Refused, passes, say

numpy: Any = import_module("numpy")  # Keras has brought it
_ARRAYS = "arrays.npz"
_METRICS = "metrics.npz"
_BEST = "best.npz"


class Resume:
    """Stands around `fit`: every call of a program in turn, from whichever the last attempt was in."""

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster, folder: str, rhythm: Rhythm) -> None:
        """`folder`: of all checkpoints of the program. `rhythm`: when to save."""
        self._keras = keras
        self._tensorflow = tensorflow
        self._cluster = cluster
        self._folder = folder
        self._checkpoints: Checkpoints  # of the call that goes on
        self._writing: Writing  # there
        self._newest = 0  # the number of the one that was begun last there
        self.rhythm = rhythm
        self._calls = 0
        self._counted: List[Any] = []  # by metrics, in the epoch that was interrupted
        # What calls that are over have read of data, by id: this attempt has left it out.
        self._owed: Dict[int, Tuple[Any, List[Read]]] = {}

    def run(self, model: Any, asked: Dict[str, Any], batch: int, data: Any, fit: Callable[[], Any]) -> Any:
        """Call `fit` with what is `asked`, changed so that it goes on.

        `batch`: examples in a step, of all; 0: not known. `data`: what the program gives as `x`.
        """
        call, self._calls = self._calls, self._calls + 1
        asked["callbacks"] = [one for one in asked["callbacks"] if not _goes_back(one)]
        self._checkpoints = checkpoints_at(os.path.join(self._folder, f"call-{call}"))
        self._writing = Writing(self._checkpoints, 0, 1, f"{os.getpid()}-{time.time_ns()}")
        found = self._agreed(model)
        place = Place(asked.get("initial_epoch", 0), 0)
        history: Dict[str, Any] = {"epoch": [], "history": {}}
        with model.distribute_strategy.scope():
            if not self._build(model, asked, must=found is not None):
                return fit()
        reached = Reached(0, 0)
        if found is not None:
            self._restore(model, found)
            best = _best_weights(found)
            self._checkpoints.release(found)
            self._build_metrics(model, asked)
            place, history = Place(*found.state["place"]), found.state["history"]
            reached = Reached(*found.state.get("reached", reached))
            self.rhythm.goes_on(found.state.get("trained_seconds", 0.0))
            is_over = found.state["is_over"] and place.epoch >= asked.get("epochs", 1)
            if is_over or found.state.get("is_stopped"):
                read = Read(found.state.get("made", 0), reached.steps)
                self._owed.setdefault(id(data), (data, []))[1].append(read)
                return self._as_it_was(model, history)
            tell_resumed(found.state["step"])
        is_array = bool(batch) and is_arrays(asked, self._tensorflow)
        is_read = not is_array and self._is_stream(asked)
        if found is not None:
            place, reached = self._entered(
                model, found, place, reached, "examples" if is_array else "steps" if is_read else ""
            )
        known = {**found.state, "best_weights": best} if found is not None else {}
        saving = Saving(self, model, place, history, asked["callbacks"], known)
        course: Optional[Course] = None
        if is_array:
            keras, tensorflow = self._keras, self._tensorflow
            course = put_in_order(asked, batch, call, lambda: saving.place, keras, tensorflow, self._seed())
        elif is_read:
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

    # What differs between Keras 3 and tf_keras

    numbers_the_rest_anew = True
    """Whether the first batch of what is left of an epoch is number 0."""

    has_paths = True
    """Whether variables have some, which are longer than names. To ask one of TensorFlow, on several machines, would read it."""

    def _is_stream(self, asked: Dict[str, Any]) -> bool:
        return is_stream(asked, self._tensorflow)

    def _passes(self, asked: Dict[str, Any], owed: List[Read], reached: Reached, done: int) -> Course:
        return Passes(self._tensorflow, asked, owed, reached, done)

    def _entering(self, model: Any, place: Place, course: Optional[Course]) -> ContextManager[None]:
        """Within it `fit` begins there."""
        return course.stand_in() if course is not None else nullcontext()

    # The state

    def _entered(
        self, model: Any, found: Checkpoint, place: Place, reached: Reached, unit: str
    ) -> Tuple[Place, Reached]:
        """Where it goes on, and say so. `unit`: of places within an epoch; empty: there are none."""
        replicas = int(model.distribute_strategy.num_replicas_in_sync)
        why = ""
        if place.done and not unit:
            why = "what it trains on cannot be entered in the middle"
        elif (place.done or reached.steps) and unit == "steps" and found.state["replicas"] != replicas:
            why = f"the steps of {found.state['replicas']} replicas are not those of {replicas}"
        if why:
            place, reached = Place(place.epoch, 0), Reached(reached.passes, 0)
        if self._cluster.is_chief:
            where = f"{place.done} {unit} into it" if unit else "from its beginning"
            say(f"goes on at step {found.state['step']}: epoch {place.epoch + 1}, {where}")
            if why:
                say(f"{why}: the interrupted epoch begins anew")
        return place, reached

    def _agreed(self, model: Any) -> Optional[Checkpoint]:
        """The checkpoint to begin from: the chief's choice, for all."""
        strategy, tensorflow = model.distribute_strategy, self._tensorflow
        is_alone = self._cluster.processes == 1 or strategy.num_replicas_in_sync == 1
        found = self._found() if is_alone or self._cluster.is_chief else None
        if is_alone:
            return found
        mine = tensorflow.constant(found.step + 1 if found is not None else 0, tensorflow.int64)

        def chosen() -> Any:
            """On each replica; the very first counts."""
            number = tensorflow.distribute.get_replica_context().replica_id_in_sync_group
            return tensorflow.where(tensorflow.equal(number, 0), mine, tensorflow.zeros_like(mine))

        step = int(strategy.reduce("SUM", tensorflow.function(strategy.run)(chosen), axis=None).numpy()) - 1
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

    def _build(self, model: Any, asked: Dict[str, Any], *, must: bool) -> bool:
        """Make all variables now, so that they can be filled. `must`: Raises Refused if that cannot be, else it is said."""
        try:
            if type(model).call is self._keras.Model.call:
                build_optimizers(self._keras, model)  # its steps call the models that it is made of
                return True
            if not model.built:
                data = asked["x"]
                if isinstance(data, self._tensorflow.data.Dataset):
                    (element,) = data.take(1)
                    data = element[0] if isinstance(element, tuple) else element
                model(self._tensorflow.nest.map_structure(lambda part: part[:1], data))
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

    def _build_metrics(self, model: Any, asked: Dict[str, Any]) -> None:
        """Make their variables now, as Keras would at the first step."""
        tensorflow, data = self._tensorflow, asked["x"]

        def zeros(spec: Any) -> Any:
            return tensorflow.zeros([size or 1 for size in spec.shape], spec.dtype)

        try:
            if isinstance(data, tensorflow.data.Dataset):
                batch = tensorflow.nest.map_structure(zeros, data.element_spec)  # one that is read would be missed
            else:
                given = [asked[name] for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
                batch = tuple(tensorflow.nest.map_structure(lambda part: part[:1], part) for part in given)
            self._count_once(model, batch)
        except Exception:
            return  # then they count what is left of the epoch alone

    def _count_once(self, model: Any, batch: Any) -> None:
        """Have all metrics make their variables, as if they had counted a batch."""
        model._symbolic_build(data_batch=batch)

    def _optimizers(self, model: Any) -> List[Any]:
        """All that a model has: those that train in two ways have more than one."""
        kind = self._keras.optimizers.Optimizer
        own = [value for value in vars(model).values() if isinstance(value, kind)]
        return list({id(one): one for one in (model.optimizer, *own) if one is not None}.values())

    def _variables(self, model: Any) -> List[Any]:
        kept = [optimizer.variables for optimizer in self._optimizers(model)]
        of_optimizers = [variable for some in kept for variable in (some() if callable(some) else some)]
        return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizers]

    def _read(self, model: Any, variable: Any) -> Any:
        """A copy of its value on this process, with no word to others: they may be in the next step already."""
        raw = variable if callable(variable.value) else variable.value
        return model.distribute_strategy.experimental_local_results(raw)[0].numpy()

    def _restore(self, model: Any, found: Checkpoint) -> None:
        if os.path.exists(found.path(_METRICS)):
            with numpy.load(found.path(_METRICS), allow_pickle=False) as counted:
                self._counted = [counted[str(n)] for n in range(len(counted.files))]
        variables, names = self._variables(model), found.state["variables"]
        with numpy.load(found.path(_ARRAYS), allow_pickle=False) as arrays:
            shapes = [tuple(variable.shape) for variable in variables]
            saved = [tuple(shape) for _, shape, _ in names]
            if shapes != saved:
                differing = next(
                    (n for n, (a, b) in enumerate(zip(shapes, saved)) if a != b), min(len(shapes), len(saved))
                )
                its = f"{names[differing][0]} {saved[differing]}" if differing < len(saved) else "nothing"
                ours = f"{shapes[differing]}" if differing < len(shapes) else "nothing"
                raise Refused(
                    f"the checkpoint of step {found.state['step']} is of another model: "
                    f"where it has {its}, the program has {ours}",
                    f"give another --job-dir, or delete {self._folder}",
                )
            with model.distribute_strategy.scope():
                for number, (variable, (_, _, kind)) in enumerate(zip(variables, names)):
                    variable.assign(arrays[str(number)].view(self._tensorflow.as_dtype(kind).as_numpy_dtype))

    def _metrics(self, model: Any) -> List[Any]:
        """What metrics have counted in this epoch. On several replicas it is each one's own, and stays with them."""
        is_alone = model.distribute_strategy.num_replicas_in_sync == 1
        return list(getattr(model, "metrics_variables", ())) if is_alone else []

    def restore_metrics(self, model: Any) -> None:
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

    def save(self, model: Any, state: Dict[str, Any], best: Dict[int, List[Any]], *, waits: bool) -> float:
        """Write a checkpoint beside the training, if this is the chief. `best`: weights that callbacks keep, by their number.

        `waits`: until it counts. Returns for how long training stood.
        """
        if not self._cluster.is_chief:
            return 0.0
        began = time.monotonic()
        self._writing.wait()
        variables = self._variables(model)
        arrays = [self._read(model, variable) for variable in [*variables, *self._metrics(model)]]
        names = [variable.path if self.has_paths else variable.name for variable in variables]
        counts = [getattr(optimizer, "_iterations", optimizer.iterations) for optimizer in self._optimizers(model)]
        steps = [int(self._read(model, count)) for count in counts]  # not what gradient_accumulation_steps makes of it
        metrics, arrays = arrays[len(variables) :], arrays[: len(variables)]
        step = max(steps, default=0)
        state = {
            **state,
            "step": step,
            "variables": [[name, list(a.shape), str(a.dtype)] for name, a in zip(names, arrays)],
            "replicas": int(model.distribute_strategy.num_replicas_in_sync),
            "trained_seconds": self.rhythm.trained_seconds,
            "best_weights": {number: len(weights) for number, weights in best.items()},
        }
        kept = [numpy.asarray(array) for weights in best.values() for array in weights]

        def stage(draft: str) -> Write:
            def write() -> None:
                _write(os.path.join(draft, _ARRAYS), arrays)
                _write(os.path.join(draft, _METRICS), metrics)
                if kept:
                    _write(os.path.join(draft, _BEST), kept)

            return write

        # By its step, but for one that was done before: a program may go back to weights of its own.
        self._newest = max(step, self._newest + 1)
        self._writing.start(self._newest, state, [stage], began)
        if waits:
            self._writing.wait()
        return time.monotonic() - began

    def is_chief(self) -> bool:
        """Whether this process saves. The others go on until it has gone: without them it could not end its step."""
        return self._cluster.is_chief

    def _seed(self) -> int:
        """The program's own, if it has set one."""
        own = import_module("tensorflow.python.eager.context").global_seed()
        return self._cluster.seed if own is None else int(own)

    def _as_it_was(self, model: Any, history: Dict[str, Any]) -> Any:
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


def _best_weights(found: Checkpoint) -> Dict[int, List[Any]]:
    """What callbacks kept, by their number: the weights of the best epoch so far."""
    counts: Dict[str, int] = found.state.get("best_weights") or {}
    if not counts:
        return {}
    with numpy.load(found.path(_BEST), allow_pickle=False) as kept:
        arrays = iter([kept[str(n)] for n in range(len(kept.files))])
    return {int(number): [next(arrays) for _ in range(count)] for number, count in counts.items()}


def _write(path: str, arrays: List[Any]) -> None:
    """Kinds that numpy does not have, such as bfloat16, go as bytes."""
    plain = [a if a.dtype.kind in "biufc" else a.view(f"u{a.dtype.itemsize}") for a in arrays]
    numpy.savez(path, **{str(n): a for n, a in enumerate(plain)})
