"""Keras' `fit` under a strategy: replicas keep the batch of the program, the chief alone writes, the first step is seen."""

from __future__ import annotations

import functools
import inspect
import math
import os
from typing import Any, Callable, Dict, List, Optional

from . import truth
from .cluster import Cluster
from .keras_resume import Resume
from .together import elsewhere
from .words import say

_DEFAULT_BATCH = 32  # of Keras
_NAMES = {"CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy"}  # the one that programs know
_FILES = ("filepath", "filename", "log_dir", "backup_dir")  # of callbacks that write
_RULES: Dict[str, Callable[[int], float]] = {"linear": float, "sqrt": math.sqrt}


class Fit:
    """What stands in for `Model.fit`."""

    def __init__(
        self,
        keras: Any,
        tensorflow: Any,
        cluster: Cluster,
        *,
        strategy: Any = None,
        expected: int = 1,
        resume: Optional[Resume] = None,
    ) -> None:
        """`strategy`: that of Stoker; None: the program's own, or none. `expected`: so many replicas are to be in step."""
        self._keras = keras
        self._tensorflow = tensorflow
        self._strategy = strategy
        self._cluster = cluster
        self._expected = expected
        self._resume = resume
        self._count = 1 if strategy is None else int(strategy.num_replicas_in_sync)
        self._original = keras.Model.fit
        self._signature = inspect.signature(self._original)
        self._sped_up: set[int] = set()  # optimizers, by id
        if strategy is None:
            return
        kinds = tensorflow.VariableSynchronization.ON_READ, tensorflow.VariableAggregation.ONLY_FIRST_REPLICA
        with strategy.scope():
            self._batch = tensorflow.Variable(
                tensorflow.constant(0, tensorflow.int64),
                trainable=False,
                synchronization=kinds[0],
                aggregation=kinds[1],
            )  # of the last step, on each replica

    def put_in_place(self) -> None:
        """From now on programs call this one."""
        fit = self

        @functools.wraps(self._original)
        def stand_in(model: Any, *args: Any, **words: Any) -> Any:
            return fit._run(model, *args, **words)

        self._keras.Model.fit = stand_in
        if self._strategy is not None and hasattr(self._keras, "Variable"):
            for number in (int, float):  # those of Keras fail for one that is on several devices
                setattr(self._keras.Variable, f"__{number.__name__}__", _reads_as(number))
        if not self._cluster.is_chief and self._strategy is not None:
            for name in ("save", "save_weights", "export"):
                setattr(self._keras.Model, name, _thrown_away(getattr(self._keras.Model, name)))

    def _run(self, model: Any, *args: Any, **words: Any) -> Any:
        bound = self._signature.bind(model, *args, **words)
        asked = bound.arguments
        if self._strategy is None:
            return self._train(model, bound)
        self._scale_batch(asked)
        notes = self._scale_learning_rate(model)
        seen: Dict[str, Any] = {}
        step = model.train_step

        def train_step(data: Any) -> Any:
            """One step of one replica, as TensorFlow traces it."""
            context = self._tensorflow.distribute.get_replica_context()
            batch = next(iter(self._tensorflow.nest.flatten(data)), None)
            seen["replicas"] = context.num_replicas_in_sync if context is not None else 1
            if batch is not None and batch.shape.rank:
                self._batch.assign(self._tensorflow.shape(batch, out_type=self._tensorflow.int64)[0])
            return step(data)

        model.train_step = train_step
        asked["callbacks"] = self._callbacks(asked.get("callbacks"), seen, notes)
        if not self._cluster.is_chief:
            asked["verbose"] = 0
        try:
            return self._train(model, bound)
        finally:
            del model.train_step

    def _train(self, model: Any, bound: inspect.BoundArguments) -> Any:
        """Let Keras train, from where the last attempt was, if that is asked for."""
        asked = bound.arguments

        def fit() -> Any:
            return self._original(*bound.args, **bound.kwargs)

        if self._resume is None:
            return fit()
        callbacks = as_list(asked.get("callbacks"))
        if callbacks is None:
            say("its callbacks are in a CallbackList of its own: it is not saved")
            return fit()
        asked["callbacks"] = callbacks
        batch = 0 if self._is_dataset(asked.get("x")) else asked.get("batch_size") or _DEFAULT_BATCH
        return self._resume.run(model, asked, batch, fit)

    # The batch

    def _scale_batch(self, asked: Dict[str, Any]) -> None:
        """As many examples for each replica as the program would give one device, and so the fewer steps."""
        count = self._count
        data: Any = asked.get("x")
        if self._is_dataset(data):
            size = _batch_of(self._tensorflow, data)
            if not size:
                say("the batch of its dataset is not known: it is shared among the replicas as it is")
                return
            asked["x"] = data.rebatch(size * count)
            checked: Any = asked.get("validation_data")
            if self._is_dataset(checked):
                size = _batch_of(self._tensorflow, checked)
                asked["validation_data"] = checked.rebatch(size * count) if size else checked
                if asked.get("validation_steps"):
                    asked["validation_steps"] = -(-asked["validation_steps"] // count)
        elif hasattr(data, "shape") or isinstance(data, (list, tuple, dict)):
            asked["batch_size"] = (asked.get("batch_size") or _DEFAULT_BATCH) * count
            if asked.get("validation_batch_size"):
                asked["validation_batch_size"] *= count
        else:
            say(f"batches come from a {type(data).__name__}: each is shared among the replicas as it is")
            return
        if asked.get("steps_per_epoch"):
            asked["steps_per_epoch"] = -(-asked["steps_per_epoch"] // count)

    def _is_dataset(self, data: Any) -> bool:
        return isinstance(data, self._tensorflow.data.Dataset)

    def _scale_learning_rate(self, model: Any) -> str:
        rule = os.environ.get("STOKER_LEARNING_RATE_RULE", "")
        if rule not in _RULES:
            return ""
        optimizer = model.optimizer
        if id(optimizer) in self._sped_up:
            return ""
        self._sped_up.add(id(optimizer))
        factor = _RULES[rule](self._count)
        try:
            before = float(optimizer.learning_rate)
            optimizer.learning_rate = before * factor
        except (TypeError, ValueError, AttributeError):
            return "its learning rate follows a schedule of its own and is left as it is"
        return f"learning rate {before:g} -> {before * factor:g} ({rule})"

    # Who writes

    def _callbacks(self, given: Any, seen: Dict[str, Any], notes: str) -> Any:
        callbacks = as_list(given)
        if callbacks is None:
            return given
        if not self._cluster.is_chief:
            for callback in callbacks:
                self._redirect(callback)
        cluster, expected, fit = self._cluster, self._expected, self
        way = _NAMES.get(type(self._strategy).__name__, type(self._strategy).__name__)

        class FirstStep(self._keras.callbacks.Callback):  # type: ignore[misc,name-defined]
            """Tells what the first step has shown, and sees to it that the optimizer counts no more steps than there were."""

            steps, before = 0, None

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.steps, self.before = 0, _iterations(self.model)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                if self.before is not None and _iterations(self.model) == self.before + self.steps + 1:
                    self.model.optimizer.iterations.assign(self.before + self.steps)

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.steps += 1
                if seen and not seen.get("is_told"):
                    seen["is_told"] = True
                    (size, *_) = fit._strategy.experimental_local_results(fit._batch)
                    truth.tell(cluster, way, expected, seen["replicas"], int(size), notes)

        return [*callbacks, FirstStep()]

    def _redirect(self, callback: Any) -> None:
        """All take part in saving, for some values are on all of them; what others than the chief write is thrown away."""
        for name in _FILES:
            if isinstance(getattr(callback, name, None), (str, os.PathLike)):
                path = os.fspath(getattr(callback, name))
                setattr(callback, name, os.path.join(elsewhere(), os.path.basename(path) or "files"))


def _iterations(model: Any) -> Optional[int]:
    """How many steps the optimizer has counted. None: not one by one, or in a way that is not ours to mend.

    Where an epoch's length is not known beforehand, TensorFlow finds its end within a step, which then is no step but counted.
    """
    optimizer = model.optimizer
    if getattr(model, "steps_per_execution", 1) != 1 or hasattr(optimizer, "inner_optimizer"):
        return None
    return int(optimizer.iterations.numpy())


def _batch_of(tensorflow: Any, dataset: Any) -> int:
    """How many examples a dataset gives at a time; 0: that is not known."""
    (spec, *_) = tensorflow.nest.flatten(dataset.element_spec) or [None]
    if spec is None or not spec.shape.rank:
        return 0
    if spec.shape[0]:
        return int(spec.shape[0])
    for element in dataset.take(1):
        return int(tensorflow.nest.flatten(element)[0].shape[0] or 0)
    return 0


def _thrown_away(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def stand_in(model: Any, filepath: Any, *args: Any, **words: Any) -> None:
        path = os.path.join(elsewhere(), os.path.basename(os.fspath(filepath)) or "model")
        save(model, path, *args, **words)

    return stand_in


def as_list(callbacks: Any) -> Optional[List[Any]]:
    """Callbacks as `fit` takes them: several, one, or none. None: a CallbackList, to which nothing can be added from outside."""
    if callbacks is None or isinstance(callbacks, (list, tuple)):
        return list(callbacks or ())
    return None if hasattr(callbacks, "callbacks") else [callbacks]


def _reads_as(number: type) -> Callable[[Any], Any]:
    return lambda variable: number(variable.numpy())
