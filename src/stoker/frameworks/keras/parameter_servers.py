"""Parameter servers with tf_keras: the chief runs the script and hands out its steps, workers do them, each at its own pace.

Keras 3 has no such way. Under ParameterServerStrategy `fit` asks for datasets without an end and for the steps of an epoch: it is
given them here, so that a script may say what it says for one device.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Dict, Optional, Sequence

from stoker.frameworks import verification
from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.messages import STOPPED_EXIT_CODE, Refused, say
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.replaced import SERVED, replace

from .chief_files import as_list
from .fit import Call, surround_fit

_DEFAULT_BATCH = 32  # of Keras


def begin(tensorflow: Any, cluster: Cluster) -> Any:
    """The strategy, on the chief. The others serve until they are stopped: this does not return there."""
    os.environ.setdefault(
        "GRPC_FAIL_FAST", "use_caller"
    )  # the chief is told of a lost worker, instead of waiting for it
    resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    if not cluster.is_chief:
        server = tensorflow.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    return tensorflow.distribute.ParameterServerStrategy(resolver)


class Served:
    """What stands in for the methods of `Model` by which programs train and evaluate."""

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster) -> None:
        self._keras = keras
        self._tensorflow = tensorflow
        self._cluster = cluster
        self._is_told = False

    def put_in_place(self) -> None:
        """From now on programs call these."""
        surround_fit(self._keras, "serve", self._fits)
        made = {name: _refused(name) for name in ("predict", "train_on_batch", "test_on_batch", "predict_on_batch")}
        made["compile"], made["evaluate"] = self._changed_by(self._compiled), self._changed_by(self._evaluated)
        replace(SERVED, {f"tf_keras:Model.{name}": make for name, make in made.items()})

    def _fits(self, call: Call, fit: Callable[[], Any]) -> Any:
        self._fitted(call.model, call.asked)
        return self._answered(fit)

    def _changed_by(self, change: Callable[[Any, Dict[str, Any]], None]) -> Callable[[Any], Any]:
        def stand_in(original: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(original)

            @functools.wraps(original)
            def called(model: Model, *args: Any, **words: Any) -> Any:
                bound = signature.bind(model, *args, **words)
                change(model, bound.arguments)
                return self._answered(lambda: original(*bound.args, **bound.kwargs))

            return called

        return stand_in

    def _answered(self, call: Callable[[], Any]) -> Any:
        try:
            return _as_numbers(call())
        except self._tensorflow.errors.UnavailableError as error:
            say(f"a parameter server is gone, and the weights with it: {str(error).splitlines()[0]}")
            raise SystemExit(STOPPED_EXIT_CODE) from None

    def _compiled(self, model: Model, asked: Dict[str, Any]) -> None:
        """Each example is looked at once when it evaluates, where Keras can: it makes the loss anew, from its name."""
        loss = asked.get("loss")
        is_known = isinstance(loss, str) or type(loss).__module__.startswith(self._keras.__name__ + ".")
        if is_known and not asked.get("loss_weights"):
            asked.setdefault("pss_evaluation_shards", "auto")

    def _fitted(self, model: Model, asked: Dict[str, Any]) -> None:
        if asked.get("class_weight"):
            raise Refused("class_weight is not known to parameter servers", "give sample_weight to fit")
        if asked.get("validation_split"):
            raise Refused(
                "validation_split is not known to parameter servers",
                "split the data in the program, and give validation_data",
            )
        _keep_quiet(asked)
        batch = asked.pop("batch_size", None) or _DEFAULT_BATCH
        checked = asked.get("validation_data")
        if checked is not None:
            many = asked.pop("validation_batch_size", None) or batch
            given = checked if isinstance(checked, (tuple, list)) else (checked,)
            steps = asked.pop("validation_steps", None)
            asked["validation_data"], steps = self._looked_at(model, given, many, steps)
            if steps:
                asked["validation_steps"] = steps
        parts = [asked.pop(name, None) for name in ("x", "y", "sample_weight")]
        steps, has_arrays = asked.get("steps_per_epoch"), not self._is_dataset(parts[0])
        rows = self._rows(parts) if has_arrays else parts[0]
        batches = rows.batch(batch) if has_arrays else rows
        count = int(batches.cardinality())
        if count <= 0 and not steps:
            raise Refused(
                "how long an epoch is cannot be known from its dataset, and workers read it each for itself",
                "give steps_per_epoch to fit",
            )
        shuffles = has_arrays and asked.get("shuffle", True)
        asked["steps_per_epoch"] = steps or count
        length = count if count > 0 else int(steps or 1)
        asked["x"] = self._own_order(rows if shuffles else batches, length, batch if shuffles else 0)
        asked["callbacks"] = self._callbacks(asked.get("callbacks"), batch if has_arrays else 0)

    def _evaluated(self, model: Model, asked: Dict[str, Any]) -> None:
        _keep_quiet(asked)
        batch, steps = asked.pop("batch_size", None) or _DEFAULT_BATCH, asked.pop("steps", None)
        parts = [asked.pop(name, None) for name in ("x", "y", "sample_weight")]
        asked["x"], steps = self._looked_at(model, parts, batch, steps)
        if steps:
            asked["steps"] = steps

    # Data

    def _own_order(self, data: Any, count: int, batch: int) -> Any:
        """The same without an end, in an order that each worker draws for itself. `batch`: so many rows, drawn one by one; 0: it
        has batches, and each worker begins somewhere among them."""
        tensorflow = self._tensorflow

        def drawn(_: Any) -> Any:
            """On the worker, when it begins to read."""
            chance = tensorflow.cast(tensorflow.timestamp() * 1e6, tensorflow.int64)
            if batch:
                return data.shuffle(count * batch, seed=chance).repeat()
            return data.repeat().skip(chance % count)

        found = tensorflow.data.Dataset.range(1).flat_map(drawn)
        return found.batch(batch, drop_remainder=True) if batch else found

    def _looked_at(
        self, model: Model, parts: Sequence[Any], batch: int, steps: Optional[int]
    ) -> "tuple[Any, Optional[int]]":
        """What it evaluates on, and in how many steps, if Keras is to be told them."""
        data = parts[0] if self._is_dataset(parts[0]) else self._rows(parts).batch(batch)
        if getattr(model, "_pss_evaluation_shards", None):
            return (data.take(steps) if steps else data), None
        found = steps or int(data.cardinality())
        if found <= 0:
            raise Refused(
                "how much it is to evaluate on cannot be known from its dataset", "give validation_steps, or steps"
            )
        return data.repeat(), found

    def _is_dataset(self, data: Any) -> bool:
        return isinstance(data, self._tensorflow.data.Dataset)

    def _rows(self, parts: Sequence[Any]) -> Any:
        """Of arrays: inputs, labels, weights."""
        inputs, *rest = [_as_tuple(part) for part in parts]
        while rest and rest[-1] is None:
            rest.pop()
        if not all(_is_array(part) for part in (inputs, *rest)):
            name = type(
                inputs if not _is_array(inputs) else next(part for part in rest if not _is_array(part))
            ).__name__
            raise Refused(
                f"its data come from a {name}, which parameter servers' workers cannot read each for itself",
                "use arrays or a tf.data.Dataset",
            )
        return self._tensorflow.data.Dataset.from_tensor_slices((inputs, *rest) if rest else inputs)

    def _callbacks(self, given: Any, batch: int) -> Any:
        served = self

        class FirstSteps(self._keras.callbacks.Callback):  # type: ignore[misc,name-defined]
            """Tells where the weights are, once there are any."""

            def on_epoch_begin(self, epoch: int, logs: Optional[Any] = None) -> None:
                self.look()

            def on_epoch_end(self, epoch: int, logs: Optional[Any] = None) -> None:
                self.look()

            def look(self) -> None:
                if served._is_told or not self.model.built or not self.model.trainable_variables:
                    return
                served._is_told = True
                place = str(self.model.trainable_variables[0].device)
                verification.tell_served(served._cluster, is_served="/job:ps" in place, place=place, batch=batch)

        callbacks = as_list(given)
        return given if callbacks is None else [*callbacks, FirstSteps()]


def _keep_quiet(asked: Dict[str, Any]) -> None:
    """Bars of progress are not known there: lines are."""
    if asked.get("verbose") == 1:
        asked["verbose"] = 2


def _as_tuple(part: Any) -> Any:
    """Several inputs are a tuple to TensorFlow's data; a list would become one array."""
    is_of_arrays = isinstance(part, (list, tuple)) and bool(part) and all(hasattr(one, "shape") for one in part)
    return tuple(part) if is_of_arrays else part


def _is_array(part: Any) -> bool:
    return hasattr(part, "shape") or isinstance(part, (list, tuple, dict))


def _as_numbers(found: Any) -> Any:
    """What `evaluate` answers: with parameter servers it is tensors, without them numbers."""
    if isinstance(found, dict):
        return {name: _as_numbers(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_as_numbers(value) for value in found]
    if not hasattr(found, "numpy"):
        return found
    value = found.numpy()
    return value if getattr(value, "ndim", 0) else float(value)


def _refused(name: str) -> Callable[[Any], Callable[..., Any]]:
    def refused(*_: Any, **__: Any) -> Any:
        raise Refused(
            f"{name} is not known with parameter servers",
            "train by fit, and predict in a program of its own from the saved model",
        )

    return lambda _: refused
