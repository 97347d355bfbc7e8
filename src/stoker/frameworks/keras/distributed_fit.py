"""Keras' `fit` under a strategy: replicas keep the batch of the program, the chief alone writes, the first step is seen."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable, Dict, Optional

from stoker.frameworks import verification
from stoker.frameworks.keras.protocols import Model, Optimizer
from stoker.frameworks.messages import Refused, say
from stoker.frameworks.metrics.meter import meter
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.processes.learning_rates import Rates
from stoker.frameworks.replaced import VARIABLE_AS_NUMBER, WHOLE_DATA, replace

from .chief_files import throw_away, writing_chief
from .composed_models import optimizers_of
from .fit import Call, surround_fit
from .own_step_time import Own
from .replica_average import Average

_DEFAULT_BATCH = 32  # of Keras
_NAMES = {"CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy"}  # the one that programs know


class Fit:
    """What is done around `Model.fit`."""

    def __init__(
        self,
        keras: Any,
        tensorflow: Any,
        cluster: Cluster,
        *,
        strategy: Any,
        expected: int = 1,
    ) -> None:
        """`expected`: so many replicas are to be in step."""
        self._keras = keras
        self._tensorflow = tensorflow
        self._strategy = strategy
        self._cluster = cluster
        self._expected = expected
        self._count = int(strategy.num_replicas_in_sync)
        self._rates = Rates(self._count)
        self._own: Optional[Own] = None
        self._average = Average(tensorflow)
        kinds = tensorflow.VariableSynchronization.ON_READ, tensorflow.VariableAggregation.ONLY_FIRST_REPLICA
        with strategy.scope():
            self._batch = tensorflow.Variable(
                tensorflow.constant(0, tensorflow.int64),
                trainable=False,
                synchronization=kinds[0],
                aggregation=kinds[1],
            )  # of the last step, on each replica
        measures = meter() if cluster.processes > 1 else None
        if measures is not None:
            self._own = Own(tensorflow, strategy, measures)

    def put_in_place(self) -> None:
        """From now on `fit` trains on all devices."""
        keras = self._keras
        surround_fit(keras, "distribute", self._run)
        made = {f"{keras.__name__}:Model.{name}": self._by_examples for name in ("evaluate", "predict")}
        replace(WHOLE_DATA[keras.__name__], made)
        self._average.put_in_place(keras)
        if hasattr(keras, "Variable"):
            numbers = {f"keras:Variable.__{kind.__name__}__": _reads_as(kind) for kind in (int, float)}
            replace(VARIABLE_AS_NUMBER, numbers)  # Keras' own fail for one that is on several devices
        if not self._cluster.is_chief:
            throw_away(keras)

    def _run(self, call: Call, fit: Callable[[], Any]) -> Any:
        model, asked = call.model, call.asked
        self._scale_batch(model, asked)
        for optimizer in optimizers_of(self._keras, model):
            self._rates.scale(optimizer)
        seen: Dict[str, Any] = {}
        step = model.train_step if self._own is None else self._own.timed(model, model.train_step)

        def train_step(data: Any) -> Any:
            """One step of one replica, as TensorFlow traces it."""
            context = self._tensorflow.distribute.get_replica_context()
            batch = next(iter(self._tensorflow.nest.flatten(data)), None)
            seen["replicas"] = context.num_replicas_in_sync if context is not None else 1
            examples = None
            if batch is not None and batch.shape.rank:
                self._batch.assign(self._tensorflow.shape(batch, out_type=self._tensorflow.int64)[0])
                examples = self._tensorflow.cast(self._tensorflow.shape(batch)[0], self._tensorflow.float32)
            return self._average.stepped(model, examples, lambda: step(data))

        model.train_step = train_step
        asked["callbacks"] = self._callbacks(asked.get("callbacks"), seen)
        if not self._cluster.is_chief:
            asked["verbose"] = 0
        try:
            return fit()
        finally:
            del model.train_step

    # The batch

    def _scale_batch(self, model: Model, asked: Dict[str, Any]) -> None:
        """As many examples for each replica as the program would give one device, and so the fewer steps."""
        count = self._count
        data: Any = asked.get("x")
        if self._is_dataset(asked.get("validation_data")):
            asked["validation_data"] = by_examples(self._tensorflow, asked["validation_data"])
        if self._is_dataset(data):
            size = batch_of(self._tensorflow, data)
            if not size:
                say("the batch of its dataset is not known: it is shared among the replicas as it is")
                asked["x"] = by_examples(self._tensorflow, data)
                return
            if not asked.get("steps_per_epoch"):
                self._check_last(model, examples_of(self._tensorflow, data), size * count)
            asked["x"] = _rebatched(self._tensorflow, data, size * count, self._own)
            checked: Any = asked.get("validation_data")
            if self._is_dataset(checked):
                size = batch_of(self._tensorflow, checked)
                found = _rebatched(self._tensorflow, checked, size * count, None) if size else checked
                asked["validation_data"] = by_examples(self._tensorflow, found)
                if asked.get("validation_steps"):
                    asked["validation_steps"] = -(-asked["validation_steps"] // count)
        elif hasattr(data, "shape") or isinstance(data, (list, tuple, dict)):
            asked["batch_size"] = (asked.get("batch_size") or _DEFAULT_BATCH) * count
            self._check_last(model, _trained_on(self._tensorflow, asked), asked["batch_size"])
            if asked.get("validation_batch_size"):
                asked["validation_batch_size"] *= count
        else:
            say(f"batches come from a {type(data).__name__}: each is shared among the replicas as it is")
            return
        if asked.get("steps_per_epoch"):
            asked["steps_per_epoch"] = -(-asked["steps_per_epoch"] // count)

    def _check_last(self, model: Model, examples: int, batch: int) -> None:
        """Raise Refused for BatchNorm where the last batch of an epoch has none for some replica. `examples`: 0: not known."""
        last, count = examples % batch, self._count
        if not last or -(-last // count) * (count - 1) < last:
            return
        if any(_needs_examples(layer) for layer in model._flatten_layers()):
            raise Refused(
                f"the last batch of an epoch has {last} of its {examples} examples, too few for {count} replicas, and "
                "BatchNormalization needs one on each",
                f"leave {last} out, or take another batch_size",
            )

    def _by_examples(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`evaluate` or `predict`, whose dataset is shared out by examples: by files, TensorFlow would take others or fail."""
        signature = inspect.signature(method)

        @functools.wraps(method)
        def stand_in(model: Model, *args: Any, **words: Any) -> Any:
            bound = signature.bind(model, *args, **words)
            if self._is_dataset(bound.arguments.get("x")):
                bound.arguments["x"] = by_examples(self._tensorflow, bound.arguments["x"])
            return method(*bound.args, **bound.kwargs)

        return stand_in

    def _is_dataset(self, data: Any) -> bool:
        return isinstance(data, self._tensorflow.data.Dataset)

    # Who writes

    def _callbacks(self, given: Any, seen: Dict[str, Any]) -> Any:
        callbacks = writing_chief(given, self._cluster)
        if callbacks is None:
            return given
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
                    optimizer = (optimizers_of(fit._keras, self.model) or [None])[
                        -1
                    ]  # what it is compiled with may be idle
                    note = fit._rates.note(optimizer, _rate_of(optimizer))
                    verification.tell(cluster, way, expected, seen["replicas"], int(size), note)

        return [*callbacks, FirstStep()]


def _iterations(model: Model) -> Optional[int]:
    """How many steps the optimizer has counted. None: not one by one, or in a way that is not ours to mend.

    Where an epoch's length is not known beforehand, TensorFlow finds its end within a step, which then is no step but counted.
    """
    optimizer = model.optimizer
    if getattr(model, "steps_per_execution", 1) != 1 or hasattr(optimizer, "inner_optimizer"):
        return None
    counted: Any = getattr(optimizer, "iterations", None)  # a model with a step of its own may have no optimizer
    return int(counted.numpy()) if hasattr(counted, "numpy") else None


def _rate_of(optimizer: Optimizer) -> float:
    try:
        return float(optimizer.learning_rate)
    except (TypeError, ValueError, AttributeError):
        return math.nan  # a schedule, or no optimizer of the model


def batch_of(tensorflow: Any, dataset: Any) -> int:
    """How many examples a dataset gives at a time; 0: that is not known."""
    (spec, *_) = tensorflow.nest.flatten(dataset.element_spec) or [None]
    if spec is None or not spec.shape.rank:
        return 0
    if spec.shape[0]:
        return int(spec.shape[0])
    for element in dataset.take(1):
        return int(tensorflow.nest.flatten(element)[0].shape[0] or 0)
    return 0


_AS_MANY = frozenset("Prefetch Options Map ParallelMap Cache MemoryCache Shuffle AssertCardinality".split())
"""Datasets that have as many elements as what they are made of."""


def _rebatched(tensorflow: Any, dataset: Any, size: int, own: Optional[Own]) -> Any:
    """In batches of so many. TensorFlow forgets how many these are, and would look for their end within a step."""
    found = (dataset if own is None else own.watched(dataset)).rebatch(size)
    examples = examples_of(tensorflow, dataset)
    if not examples:
        return found
    return found.apply(tensorflow.data.experimental.assert_cardinality(-(-examples // size)))


def examples_of(tensorflow: Any, dataset: Any) -> int:
    """How many examples are in its batches; 0: that is not known, or the last ones are left out."""
    below = dataset
    while _kind(below) in _AS_MANY and hasattr(below, "_input_dataset"):
        below = below._input_dataset
    examples = int(below._input_dataset.cardinality()) if _kind(below) in ("Batch", "ParallelBatch") else 0
    is_whole = examples > 0 and int(dataset.cardinality()) == -(-examples // batch_of(tensorflow, dataset))
    return examples if is_whole else 0


def _trained_on(tensorflow: Any, asked: Dict[str, Any]) -> int:
    """How many of the arrays' examples are, without those that are split off; 0: that is not known."""
    parts = tensorflow.nest.flatten(asked["x"])
    if asked.get("steps_per_epoch") or not parts or not len(getattr(parts[0], "shape", ())):
        return 0
    split = asked.get("validation_split") if asked.get("validation_data") is None else None
    return int(parts[0].shape[0] * (1.0 - (split or 0.0)))


def _needs_examples(layer: Any) -> bool:
    """Whether it is a BatchNorm that learns from the examples of its own replica."""
    is_own = "BatchNormalization" in type(layer).__name__ and not getattr(layer, "synchronized", False)
    return is_own and bool(layer.trainable)


def by_examples(tensorflow: Any, dataset: Any) -> Any:
    """A dataset that is shared out by its examples, unless the program says how."""
    policy: Any = tensorflow.data.experimental.AutoShardPolicy
    if dataset.options().experimental_distribute.auto_shard_policy != policy.AUTO:
        return dataset
    options = tensorflow.data.Options()
    options.experimental_distribute.auto_shard_policy = policy.DATA
    return dataset.with_options(options)


def _kind(dataset: Any) -> str:
    return type(dataset).__name__.strip("_").removesuffix("Dataset") if dataset is not None else ""


def _reads_as(number: type) -> Callable[[Any], Callable[[Any], Any]]:
    return lambda _: lambda variable: number(variable.numpy())
