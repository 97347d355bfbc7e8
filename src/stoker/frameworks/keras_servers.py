"""Parameter servers with tf_keras: the chief runs the script and hands out its steps, workers do them, each at its own pace.

Keras 3 has no such way. Under ParameterServerStrategy `fit` asks for datasets without an end and for the steps of an epoch: it is
given them here, so that a script may say what it says for one device.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Dict, Optional

from . import truth
from .cluster import Cluster
from .words import STOPPED_EXIT_CODE, Refused, say

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


def _as_numbers(found: Any) -> Any:
    """What `evaluate` answers: with parameter servers it is tensors, without them numbers."""
    if isinstance(found, dict):
        return {name: _as_numbers(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_as_numbers(value) for value in found]
    return float(found) if hasattr(found, "numpy") else found


class Served:
    """What stands in for `Model.compile`, `fit` and `evaluate`."""

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster) -> None:
        self._keras = keras
        self._tensorflow = tensorflow
        self._cluster = cluster
        self._is_told = False

    def put_in_place(self) -> None:
        """From now on programs call these."""
        model = self._keras.Model
        for name, change in (("compile", self._compiled), ("fit", self._fitted), ("evaluate", self._evaluated)):
            setattr(model, name, self._stand_in(getattr(model, name), change))

    def _stand_in(self, original: Callable[..., Any], change: Callable[[Any, Dict[str, Any]], None]) -> Any:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def called(model: Any, *args: Any, **words: Any) -> Any:
            bound = signature.bind(model, *args, **words)
            change(model, bound.arguments)
            try:
                return _as_numbers(original(*bound.args, **bound.kwargs))
            except self._tensorflow.errors.UnavailableError as error:
                say(f"a parameter server is gone, and the weights with it: {str(error).splitlines()[0]}")
                raise SystemExit(STOPPED_EXIT_CODE) from None

        return called

    def _compiled(self, model: Any, asked: Dict[str, Any]) -> None:
        """Each example is looked at once when it evaluates, whichever worker does it."""
        asked.setdefault("pss_evaluation_shards", "auto")

    def _fitted(self, model: Any, asked: Dict[str, Any]) -> None:
        batch = asked.get("batch_size") or _DEFAULT_BATCH
        checked = asked.get("validation_data")
        if checked is None and asked.pop("validation_split", 0.0):
            raise Refused(
                "validation_split is not known to parameter servers",
                "split the data in the program, and give validation_data",
            )
        if checked is not None and not self._is_dataset(checked):
            asked["validation_data"] = self._dataset(*checked).batch(asked.pop("validation_batch_size", None) or batch)
        data: Any = asked.get("x")
        steps = asked.get("steps_per_epoch")
        if self._is_dataset(data):
            steps = steps or int(data.cardinality())
            if steps <= 0:
                raise Refused(
                    "how long an epoch is cannot be known from its dataset, and workers read it each for itself",
                    "give steps_per_epoch to fit",
                )
            asked["x"] = data.repeat()
        else:
            rows = self._dataset(data, asked.pop("y", None), asked.pop("sample_weight", None))
            count = int(rows.cardinality())
            if asked.get("shuffle", True):
                rows = rows.shuffle(count, seed=self._cluster.seed % (1 << 31))
            steps = steps or -(-count // batch)
            asked["x"] = rows.repeat().batch(batch)
            asked.pop("batch_size", None)
        asked["steps_per_epoch"] = steps
        asked["callbacks"] = self._callbacks(asked.get("callbacks"), 0 if self._is_dataset(data) else batch)

    def _evaluated(self, model: Any, asked: Dict[str, Any]) -> None:
        if not self._is_dataset(asked.get("x")):
            rows = self._dataset(asked.get("x"), asked.pop("y", None), asked.pop("sample_weight", None))
            asked["x"] = rows.batch(asked.pop("batch_size", None) or _DEFAULT_BATCH)

    def _is_dataset(self, data: Any) -> bool:
        return isinstance(data, self._tensorflow.data.Dataset)

    def _dataset(self, *parts: Any) -> Any:
        """Of arrays: inputs, labels, weights."""
        given = tuple(part for part in parts if part is not None)
        if not given or not all(hasattr(part, "shape") or isinstance(part, (list, tuple, dict)) for part in given):
            name = type(given[0]).__name__ if given else "nothing"
            raise Refused(
                f"its data come from a {name}, which parameter servers' workers cannot read each for itself",
                "use arrays or a tf.data.Dataset",
            )
        return self._tensorflow.data.Dataset.from_tensor_slices(given if len(given) > 1 else given[0])

    def _callbacks(self, given: Any, batch: int) -> Any:
        served = self

        class FirstSteps(self._keras.callbacks.Callback):  # type: ignore[misc,name-defined]
            """Tells where the weights are, once there are any."""

            def on_epoch_begin(self, epoch: int, logs: Optional[Any] = None) -> None:
                if not served._is_told and self.model.trainable_variables:
                    served._is_told = True
                    place = self.model.trainable_variables[0].device
                    truth.tell_served(served._cluster, is_served="/job:ps" in str(place), place=str(place), batch=batch)

        from .keras_fit import as_list

        callbacks = as_list(given)
        return given if callbacks is None else [*callbacks, FirstSteps()]
