"""`fit` of Keras that goes on where it was interrupted: at the same batch of the same order, with the same state.

Keras' own BackupAndRestore goes back to the beginning of the epoch with the weights of its middle. Here the order of examples is
drawn from a seed for each epoch, so that an epoch can be entered anywhere; what is saved is all that a step changes.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from .checkpoints import Checkpoint, Checkpoints
from .cluster import Cluster
from .interval import seconds_until_save
from .words import Refused, say

STOPPED_EXIT_CODE = 143
"""128 + SIGTERM: it was told to stop, has saved, and is to be run again."""

numpy: Any = import_module("numpy")  # Keras has brought it
_ARRAYS = "arrays.npz"


class Place(NamedTuple):
    """Where training stands."""

    epoch: int
    examples: int  # of this epoch, that have been trained on


class Resume:
    """Stands around `fit`: every call of a program in turn, from whichever the last attempt was in."""

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster, folder: str, every_seconds: float) -> None:
        """`every_seconds`: between two saves; 0: as what a save costs makes best."""
        self._keras = keras
        self._tensorflow = tensorflow
        self._cluster = cluster
        self._checkpoints = Checkpoints(folder)
        self._every_seconds = every_seconds
        self._calls = 0
        self._ended: List[Dict[str, Any]] = []  # the histories of the calls that are over

    def run(self, model: Any, asked: Dict[str, Any], batch: int, fit: Callable[[], Any]) -> Any:
        """Call `fit` with what is `asked`, changed so that it goes on. `batch`: examples in a step, of all; 0: not known."""
        call, self._calls = self._calls, self._calls + 1
        found = self._agreed(model)
        if found is not None and call < found.state["call"]:
            return self._as_it_was(model, found.state["ended"][call])
        is_in_it = found is not None and call == found.state["call"]
        with model.distribute_strategy.scope():
            self._build(model, asked)
        place = Place(asked.get("initial_epoch", 0), 0)
        history: Dict[str, Any] = {"epoch": [], "history": {}}
        if found is not None and is_in_it:
            self._restore(model, found)
            self._ended = found.state["ended"]
            place, history = Place(*found.state["place"]), found.state["history"]
            if self._cluster.is_chief:
                say(f"goes on at step {found.step}: epoch {place.epoch + 1}, {place.examples} examples into it")
        saving = _Saving(self, model, call, place, history)
        data = self._data(asked, batch, call, saving)
        asked["initial_epoch"] = place.epoch
        asked["callbacks"] = [*asked["callbacks"], saving.callback(self._keras)]
        with saving.hears_term(data):
            told = fit()
        saving.end(asked.get("epochs", 1))
        self._ended = [*self._ended, saving.history]
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

    def _build(self, model: Any, asked: Dict[str, Any]) -> None:
        """Make all variables now, so that they can be filled."""
        if not model.built:
            data = asked["x"]
            if isinstance(data, self._tensorflow.data.Dataset):
                (element,) = data.take(1)
                data = element[0] if isinstance(element, tuple) else element
            model(self._tensorflow.nest.map_structure(lambda part: part[:1], data))
        if model.optimizer is not None:
            model.optimizer.build(model.trainable_variables)

    def _variables(self, model: Any) -> List[Any]:
        optimizer = model.optimizer
        of_optimizer = list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)
        return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizer]

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
                    f"the checkpoint of step {found.step} is of another model: where it has {its}, the program has {ours}",
                    f"give another --job-dir, or delete {self._checkpoints.folder}",
                )
            with model.distribute_strategy.scope():
                for number, (variable, (_, _, kind)) in enumerate(zip(variables, names)):
                    variable.assign(arrays[str(number)].view(self._tensorflow.as_dtype(kind).as_numpy_dtype))

    def save(self, model: Any, call: int, place: Place, history: Dict[str, Any]) -> float:
        """Write a checkpoint, if this is the chief. Returns how long that took. Raises OSError."""
        if not self._cluster.is_chief:
            return 0.0
        began = time.monotonic()
        variables = self._variables(model)
        arrays = [self._read(model, variable) for variable in variables]
        names = [getattr(variable, "path", variable.name) for variable in variables]
        state = {
            "call": call,
            "place": list(place),
            "history": history,
            "ended": self._ended,
            "variables": [[name, list(a.shape), str(a.dtype)] for name, a in zip(names, arrays)],
            "replicas": int(model.distribute_strategy.num_replicas_in_sync),
        }

        def write(folder: str) -> None:
            """Kinds that numpy does not have, such as bfloat16, go as bytes."""
            plain = [a if a.dtype.kind in "biufc" else a.view(f"u{a.dtype.itemsize}") for a in arrays]
            numpy.savez(os.path.join(folder, _ARRAYS), **{str(n): a for n, a in enumerate(plain)})

        self._checkpoints.save(int(model.optimizer.iterations), state, write)
        return time.monotonic() - began

    def is_chief(self) -> bool:
        """Whether this process saves. The others go on until it has gone: without them it could not end its step."""
        return self._cluster.is_chief

    def seconds_until_save(self, save_seconds: float) -> float:
        """From one save, which took so long, to the next."""
        return self._every_seconds or seconds_until_save(save_seconds)

    # The data

    def _data(self, asked: Dict[str, Any], batch: int, call: int, saving: _Saving) -> "Optional[_Order]":
        """Have the first epoch begin where it was interrupted. None: it cannot be entered but at its beginning."""
        tensorflow, data = self._tensorflow, asked["x"]
        is_array = all(len(getattr(part, "shape", ())) for part in tensorflow.nest.flatten(data))
        if asked.get("steps_per_epoch") or not is_array or not batch:
            if saving.place.examples:
                say("what it trains on cannot be entered in the middle: the interrupted epoch begins anew")
            return None
        if asked.get("validation_split") and asked.get("validation_data") is None:
            _split(asked, tensorflow)
        parts = tuple(asked[name] for name in ("x", "y", "sample_weight") if asked.get(name) is not None)
        order = _Order(saving, self._seed(), call, len(tensorflow.nest.flatten(parts)[0]), asked.get("shuffle", True))
        tensors = tensorflow.nest.map_structure(tensorflow.convert_to_tensor, parts)
        indices = tensorflow.data.Dataset.from_tensors(0).flat_map(
            lambda _: tensorflow.data.Dataset.from_tensor_slices(
                tensorflow.ensure_shape(tensorflow.numpy_function(order.indices, [], tensorflow.int64), [None])
            )
        )
        batches = indices.batch(batch).map(
            lambda some: tensorflow.nest.map_structure(lambda tensor: tensorflow.gather(tensor, some), tensors)
        )
        options = tensorflow.data.Options()
        options.experimental_distribute.auto_shard_policy = tensorflow.data.experimental.AutoShardPolicy.DATA
        asked["x"] = batches.prefetch(tensorflow.data.AUTOTUNE).with_options(options)
        whole = tensorflow.constant(-(-order.count // batch), tensorflow.int64)
        asked["x"].cardinality = lambda: whole  # of an epoch: the interrupted one has fewer
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        for name in ("y", "sample_weight", "batch_size"):
            asked.pop(name, None)
        asked["shuffle"] = False
        if asked.get("validation_data") is not None:
            asked.setdefault("validation_batch_size", batch)
        order.batch = batch
        return order

    def _seed(self) -> int:
        """The program's own, if it has set one."""
        own = import_module("tensorflow.python.eager.context").global_seed()
        return self._cluster.seed if own is None else int(own)

    def _as_it_was(self, model: Any, history: Dict[str, Any]) -> Any:
        """A call that an earlier attempt has brought to its end: its weights come with those of the last one."""
        told = self._keras.callbacks.History()
        told.set_model(model)
        told.epoch, told.history = history["epoch"], history["history"]
        self._ended = [*self._ended, history]
        return told


class _Order:
    """In which order an epoch goes through the examples."""

    def __init__(self, saving: _Saving, seed: int, call: int, count: int, shuffles: Any) -> None:
        self._saving = saving
        self._seed = seed
        self._call = call
        self.count = count
        self._shuffles = bool(shuffles)
        self.batch = 0

    def indices(self) -> Any:
        """Of the epoch that begins now, what is left of it."""
        epoch, done = self._saving.place
        order = numpy.arange(self.count)
        if self._shuffles:
            order = numpy.random.default_rng([self._seed, self._call, epoch]).permutation(self.count)
        return order[done:]


class _Saving:
    """Saves while one call of `fit` goes on."""

    def __init__(self, resume: Resume, model: Any, call: int, place: Place, history: Dict[str, Any]) -> None:
        self._resume = resume
        self._model = model
        self._call = call
        self._began = place
        self.place = place
        self.history = history
        self._order: Optional[_Order] = None
        self._next_at = time.monotonic() + resume.seconds_until_save(0.0)
        self._must_stop = False

    @contextmanager
    def hears_term(self, order: Optional[_Order]) -> Iterator[None]:
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
        self._save()

    def callback(self, keras: Any) -> Any:
        """What Keras calls after each batch and epoch. The last of all, so that the others have done theirs."""
        saving = self

        class Saves(keras.callbacks.Callback):  # type: ignore[misc]
            """Saves when it is time."""

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                if epoch != saving.place.epoch:
                    saving.place = Place(epoch, 0)

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
            self.history["history"].setdefault(name, []).append(float(value))
        self._save_if_due()

    def _save_if_due(self) -> None:
        if self._must_stop or time.monotonic() >= self._next_at:
            self._save()
        if self._must_stop and self._resume.is_chief():
            raise SystemExit(STOPPED_EXIT_CODE)

    def _save(self) -> None:
        seconds = 0.0
        try:
            seconds = self._resume.save(self._model, self._call, self.place, self.history)
        except OSError as error:
            say(f"a checkpoint could not be written, the one before is kept: {error}")
        self._next_at = time.monotonic() + self._resume.seconds_until_save(seconds)

    def _told_to_stop(self, number: int, frame: Optional[FrameType]) -> None:
        self._must_stop = True


def _split(asked: Dict[str, Any], tensorflow: Any) -> None:
    """What Keras does with `validation_split`: the last part of the examples is for validation."""
    names = [name for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
    count = len(tensorflow.nest.flatten(asked["x"])[0])
    cut = int(count * (1.0 - asked.pop("validation_split")))
    wholes = {name: asked[name] for name in names}
    for name in names:
        asked[name] = tensorflow.nest.map_structure(lambda part: part[:cut], wholes[name])
    asked["validation_data"] = tuple(
        tensorflow.nest.map_structure(lambda part: part[cut:], wholes[name]) for name in names
    )
