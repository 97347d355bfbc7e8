"""How long each step takes of a process's own, where `fit` trains on several workers: those in step take equally long otherwise.

Computing takes from when a step has its data, for which workers wait together, until its gradients are there; a slice of one that
comes back to the processor tells when. Meanwhile the next data are read: whichever takes longer is the process's own time.
"""

from __future__ import annotations

from typing import Any, Callable

from stoker.frameworks.keras.protocols import Model, Optimizer
from stoker.frameworks.metrics.meter import Meter


class Own:
    """The own time of one process's steps."""

    def __init__(self, tensorflow: Any, strategy: Any, meter: Meter) -> None:
        self._tensorflow = tensorflow
        self._strategy = strategy
        self._read_seconds = 0.0
        with strategy.scope():
            self._began, self._computed = self._variable(), self._variable()
        meter.own = self._take

    def watched(self, dataset: Any) -> Any:
        """Data of which it is noted how long they take to be read is noted."""
        tensorflow = self._tensorflow

        def note(seconds: Any) -> bool:
            self._read_seconds += float(seconds)
            return True

        def answered(asked_at: Any, element: Any) -> Any:
            noted = tensorflow.numpy_function(note, [tensorflow.timestamp() - asked_at], tensorflow.bool)
            with tensorflow.control_dependencies([noted]):
                return tensorflow.nest.map_structure(tensorflow.identity, element)

        try:
            times = tensorflow.data.Dataset.counter().map(lambda _: tensorflow.timestamp())
            found = tensorflow.data.Dataset.zip((times, dataset)).map(answered)
        except Exception:  # whatever is in it that cannot stand in a pair
            return dataset
        return found.with_options(dataset.options()) if found.element_spec == dataset.element_spec else dataset

    def timed(self, model: Model, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A `train_step` that is looked at while TensorFlow traces it."""

        def train_step(data: Any) -> Any:
            optimizer: Optimizer = model.optimizer
            if optimizer is None or getattr(model, "jit_compile", False) is True:
                return step(data)  # XLA has no clock
            apply = optimizer.apply_gradients
            first = next(iter(self._tensorflow.nest.flatten(data)), None)
            if first is None:
                return step(data)
            self._began.assign(self._now(first))

            def apply_gradients(pairs: Any, *args: Any, **words: Any) -> Any:
                pairs = list(pairs)
                for gradient in [one for one, _ in pairs if one is not None][:1]:  # of the first layer: computed last
                    self._computed.assign_add(self._now(getattr(gradient, "values", gradient)) - self._began)
                return apply(pairs, *args, **words)

            optimizer.apply_gradients = apply_gradients
            try:
                return step(data)
            finally:
                del optimizer.apply_gradients

        return train_step

    def _now(self, tensor: Any) -> Any:
        """When a tensor is there."""
        tensorflow = self._tensorflow
        with tensorflow.device("CPU:0"):
            seen = tensorflow.identity(tensorflow.reshape(tensorflow.convert_to_tensor(tensor), [-1])[:1])
            with tensorflow.control_dependencies([seen]):
                return tensorflow.timestamp()

    def _take(self) -> float:
        """Since it was asked for the last time."""
        local = self._strategy.experimental_local_results(self._computed)
        computed, read = max(float(one.numpy()) for one in local), self._read_seconds
        for one in local:
            one.assign(0.0)
        self._read_seconds = 0.0
        return max(computed, read)

    def _variable(self) -> Any:
        """One of each replica."""
        tensorflow = self._tensorflow
        return tensorflow.Variable(
            tensorflow.constant(0.0, tensorflow.float64),
            trainable=False,
            synchronization=tensorflow.VariableSynchronization.ON_READ,
            aggregation=tensorflow.VariableAggregation.ONLY_FIRST_REPLICA,
        )
