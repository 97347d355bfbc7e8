"""`fit` of Keras that goes on where it was interrupted: at the same batch of the same order, with the same state.

Keras' own BackupAndRestore goes back to the beginning of the epoch with the weights of its middle. Here the order of examples is
drawn from a seed for each epoch, so that an epoch can be entered anywhere; what is saved is all that a step changes.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional

from .checkpoints import Checkpoint, Checkpoints
from .cluster import Cluster
from .interval import LEAST_SHARE, Rhythm
from .keras_order import Order, Place, is_arrays, put_in_order
from .steps import meter, tell_resumed, tell_saved
from .words import STOPPED_EXIT_CODE, Refused, say

numpy: Any = import_module("numpy")  # Keras has brought it
_ARRAYS = "arrays.npz"
_OF_CALLBACKS = ("wait", "best", "best_epoch", "stopped_epoch", "cooldown_counter", "epochs_since_last_save")


class Resume:
    """Stands around `fit`: every call of a program in turn, from whichever the last attempt was in."""

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster, folder: str, rhythm: Rhythm) -> None:
        """`folder`: of all checkpoints of the program. `rhythm`: when to save."""
        self._keras = keras
        self._tensorflow = tensorflow
        self._cluster = cluster
        self._folder = folder
        self._checkpoints = Checkpoints(folder)  # of the call that goes on
        self.rhythm = rhythm
        self._calls = 0

    def run(self, model: Any, asked: Dict[str, Any], batch: int, fit: Callable[[], Any]) -> Any:
        """Call `fit` with what is `asked`, changed so that it goes on. `batch`: examples in a step, of all; 0: not known."""
        call, self._calls = self._calls, self._calls + 1
        self._checkpoints = Checkpoints(os.path.join(self._folder, f"call-{call}"))
        found = self._agreed(model)
        place = Place(asked.get("initial_epoch", 0), 0)
        history: Dict[str, Any] = {"epoch": [], "history": {}}
        with model.distribute_strategy.scope():
            self._build(model, asked, must=found is not None)
        if found is not None:
            self._restore(model, found)
            place, history = Place(*found.state["place"]), found.state["history"]
            self.rhythm.goes_on(found.state.get("trained_seconds", 0.0))
            if found.state["is_over"] and place.epoch >= asked.get("epochs", 1):
                return self._as_it_was(model, history)
            tell_resumed(found.state["step"])
            if self._cluster.is_chief:
                say(
                    f"goes on at step {found.state['step']}: epoch {place.epoch + 1}, {place.examples} examples into it"
                )
        saving = _Saving(self, model, place, history, asked["callbacks"], found.state if found else {})
        order: Optional[Order] = None
        if batch and is_arrays(asked, self._tensorflow):
            keras, tensorflow = self._keras, self._tensorflow
            order = put_in_order(asked, batch, call, lambda: saving.place, keras, tensorflow, self._seed())
        elif place.examples:
            say("what it trains on cannot be entered in the middle: the interrupted epoch begins anew")
        asked["initial_epoch"] = place.epoch
        asked["callbacks"] = [*asked["callbacks"], saving.callback(self._keras)]
        with saving.hears_term(order):
            told = fit()
        saving.end(asked.get("epochs", 1))
        told.epoch, told.history = saving.history["epoch"], saving.history["history"]
        return told

    # The state

    def _agreed(self, model: Any) -> Optional[Checkpoint]:
        """The checkpoint to begin from: the chief's choice, for all."""
        found = self._checkpoints.latest()
        strategy = model.distribute_strategy
        if self._cluster.processes == 1 or strategy.num_replicas_in_sync == 1:
            return found
        tensorflow = self._tensorflow
        mine = tensorflow.constant(found.step + 1 if found and self._cluster.is_chief else 0, tensorflow.int64)

        def chosen() -> Any:
            """On each replica; the very first counts."""
            number = tensorflow.distribute.get_replica_context().replica_id_in_sync_group
            return tensorflow.where(tensorflow.equal(number, 0), mine, tensorflow.zeros_like(mine))

        step = int(strategy.reduce("SUM", tensorflow.function(strategy.run)(chosen), axis=None).numpy()) - 1
        if step < 0:
            return None
        theirs = self._checkpoints.at(step)
        if theirs is None:
            raise Refused(
                f"the chief goes on at step {step}, and that checkpoint is not to be found here ({self._checkpoints.folder})",
                "give a --job-dir that all machines share",
            )
        return theirs

    def _build(self, model: Any, asked: Dict[str, Any], *, must: bool) -> None:
        """Make all variables now, so that they can be filled. `must`: Raises Refused if that cannot be."""
        try:
            if not model.built:
                data = asked["x"]
                if isinstance(data, self._tensorflow.data.Dataset):
                    (element,) = data.take(1)
                    data = element[0] if isinstance(element, tuple) else element
                model(self._tensorflow.nest.map_structure(lambda part: part[:1], data))
            if model.optimizer is not None:
                model.optimizer.build(model.trainable_variables)
        except Exception as error:
            if must:
                raise Refused(
                    f"the model cannot be built before it trains, so that its checkpoint has no place ({error})",
                    "give it an Input, or train it from arrays",
                ) from None

    def _optimizers(self, model: Any) -> List[Any]:
        """All that a model has: those that train in two ways have more than one."""
        kind = self._keras.optimizers.Optimizer
        own = [value for value in vars(model).values() if isinstance(value, kind)]
        return list({id(one): one for one in (model.optimizer, *own) if one is not None}.values())

    def _variables(self, model: Any) -> List[Any]:
        of_optimizers = [variable for optimizer in self._optimizers(model) for variable in optimizer.variables]
        return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizers]

    def _read(self, model: Any, variable: Any) -> Any:
        """Its value on this process, with no word to others: they may be in the next step already."""
        raw = variable if callable(variable.value) else variable.value
        return model.distribute_strategy.experimental_local_results(raw)[0].numpy()

    def _restore(self, model: Any, found: Checkpoint) -> None:
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

    def save(self, model: Any, state: Dict[str, Any]) -> float:
        """Write a checkpoint, if this is the chief. Returns how long that took. Raises OSError."""
        if not self._cluster.is_chief:
            return 0.0
        began = time.monotonic()
        variables = self._variables(model)
        arrays = [self._read(model, variable) for variable in variables]
        names = [getattr(variable, "path", variable.name) for variable in variables]
        steps = [int(self._read(model, optimizer.iterations)) for optimizer in self._optimizers(model)]
        state = {
            **state,
            "step": max(steps, default=0),
            "variables": [[name, list(a.shape), str(a.dtype)] for name, a in zip(names, arrays)],
            "replicas": int(model.distribute_strategy.num_replicas_in_sync),
            "trained_seconds": self.rhythm.trained_seconds,
        }

        def write(folder: str) -> None:
            """Kinds that numpy does not have, such as bfloat16, go as bytes."""
            plain = [a if a.dtype.kind in "biufc" else a.view(f"u{a.dtype.itemsize}") for a in arrays]
            numpy.savez(os.path.join(folder, _ARRAYS), **{str(n): a for n, a in enumerate(plain)})

        folder = self._checkpoints.save_next(state, write)
        took = time.monotonic() - began
        tell_saved(state["step"], took, took, folder)
        return took

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


class _Saving:
    """Saves while one call of `fit` goes on."""

    def __init__(
        self,
        resume: Resume,
        model: Any,
        place: Place,
        history: Dict[str, Any],
        callbacks: List[Any],
        known: Dict[str, Any],
    ) -> None:
        """`known`: the state of the checkpoint that it goes on from; empty for none."""
        self._resume = resume
        self._model = model
        self._began = place
        self.place = place
        self.history = history
        self._callbacks = callbacks
        self._known = known
        self._order: Optional[Order] = None
        self._save_seconds = 0.0
        self._meter = meter()
        self._epoch_began_at = time.monotonic()
        self._must_stop = False
        for callback in callbacks if known else ():
            if hasattr(callback, "append") and hasattr(callback, "csv_file"):
                callback.append = True  # a CSVLogger goes on with its file

    @contextmanager
    def hears_term(self, order: Optional[Order]) -> Iterator[None]:
        """Within it a TERM is heard at the end of a batch. `order`: of the examples; None: an epoch has no places to stop at."""
        self._order = order
        try:
            before = signal.signal(signal.SIGTERM, self._told_to_stop)
        except ValueError:
            say("it does not train in its main thread: it is not saved when it is told to stop")
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def end(self, epochs: int) -> None:
        """All epochs are over."""
        self.place = Place(max(epochs, self.place.epoch), 0)
        self._save(is_over=True)

    def begin(self) -> None:
        """What the program's callbacks knew of the epochs before, they have forgotten when training began: they know it again."""
        for callback, numbers in zip(self._callbacks, self._known.get("callbacks", [])):
            for name, number in numbers.items():
                is_count = isinstance(getattr(callback, name, None), int)
                setattr(callback, name, int(number) if is_count else number)

    def begin_epoch(self, epoch: int) -> None:
        """An interrupted one has had its beginning: what a schedule has made of the learning rate then, it has."""
        self._epoch_began_at = time.monotonic()
        if epoch != self.place.epoch:
            self.place = Place(epoch, 0)
        elif self.place.examples and self._known.get("learning_rate") is not None:
            try:
                self._model.optimizer.learning_rate = self._known["learning_rate"]
            except (TypeError, ValueError, AttributeError):
                return  # it follows a schedule by its steps

    def callback(self, keras: Any) -> Any:
        """What Keras calls after each batch and epoch. The last of all, so that the others have done theirs."""
        saving = self

        class Saves(keras.callbacks.Callback):  # type: ignore[misc]
            """Saves when it is time."""

            def on_train_begin(self, logs: Any = None) -> None:
                saving.begin()

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                saving.begin_epoch(epoch)

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                if saving.is_over(batch):
                    raise StopIteration  # as if the data had run out, of which a step would hear in its middle

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                saving.after_batch(batch)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                saving.after_epoch(epoch, logs or {})

        return Saves()

    def is_over(self, batch: int) -> bool:
        """Whether the epoch, which may have been entered in its middle, has no such batch."""
        return self._order is not None and self._done(batch) >= self._order.count

    def after_batch(self, batch: int) -> None:
        """A batch of this epoch is done. After the last one the epoch still has its end: that is where it is saved."""
        if self._order is None:
            if self._must_stop and self._resume.is_chief():
                raise SystemExit(STOPPED_EXIT_CODE)  # it begins the epoch anew: what was saved at its beginning counts
        elif self._done(batch + 1) < self._order.count:
            self.place = Place(self.place.epoch, self._done(batch + 1))
            self._save_if_due()

    def _done(self, batches: int) -> int:
        """How many examples of this epoch so many batches of this attempt bring it to."""
        assert self._order is not None
        began = self._began.examples if self.place.epoch == self._began.epoch else 0
        return began + batches * self._order.batch

    def after_epoch(self, epoch: int, logs: Dict[str, Any]) -> None:
        """An epoch is over, with its validation."""
        self.place = Place(epoch + 1, 0)
        self.history["epoch"].append(epoch)
        for name, value in logs.items():
            self.history["history"].setdefault(name, []).append(numpy.asarray(value).tolist())
        took = time.monotonic() - self._epoch_began_at
        if self._order is None and took >= LEAST_SHARE * self._save_seconds:
            self._resume.rhythm.hurry()  # it can be entered at its beginning alone
        self._save_if_due()

    def _save_if_due(self) -> None:
        if self._must_stop or self._resume.rhythm.is_due:
            self._save()
        if self._must_stop and self._resume.is_chief():
            raise SystemExit(STOPPED_EXIT_CODE)

    def _save(self, *, is_over: bool = False) -> None:
        optimizer = self._model.optimizer
        try:
            rate: Optional[float] = float(numpy.asarray(optimizer.learning_rate))
        except (TypeError, ValueError, AttributeError):
            rate = None
        state = {
            "place": list(self.place),
            "history": self.history,
            "is_over": is_over,
            "callbacks": [_numbers_of(callback) for callback in self._callbacks],
            "learning_rate": rate,
        }
        try:
            self._save_seconds = self._resume.save(self._model, state)
            if self._meter is not None:
                self._meter.aside(self._save_seconds)
        except OSError as error:
            say(f"a checkpoint could not be written, the one before is kept: {error}")
        self._resume.rhythm.saved(self._save_seconds)

    def _told_to_stop(self, number: int, frame: Optional[FrameType]) -> None:
        self._must_stop = True


def _numbers_of(callback: Any) -> Dict[str, float]:
    """The numbers that well-known callbacks keep from epoch to epoch."""
    found = {name: getattr(callback, name, None) for name in _OF_CALLBACKS}
    return {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}
