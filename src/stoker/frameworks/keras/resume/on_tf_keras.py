"""What is different where `fit` of tf_keras goes on (resumed_fit.py): its readers of data, its metrics, its random numbers.

tf_keras can begin in the middle of an epoch by itself, as its own recovery from preemption does; batches keep their numbers then.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional

from stoker.frameworks.keras.data.dataset_passes import Passes, is_generator
from stoker.frameworks.keras.data.epoch_order import Course, Place
from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.replaced import TF_KERAS_READER, replaced_meanwhile

from .on_tensorflow import TensorflowResume


class TfKerasPasses(Passes):
    """The passes that `fit` of tf_keras makes through a dataset. It goes on with one until its steps are done, or it is over."""

    @contextmanager
    def stand_in(self) -> Iterator[None]:
        """Within it the first reader that tf_keras makes, which is the one that it trains from, reads from here."""

        def stand_in(original: Any) -> Callable[..., Any]:
            def make(*args: Any, **words: Any) -> Any:
                put_back()
                self._reader = original(*args, **words)
                self._reader._distributed_dataset, self._reader._dataset = self._reader._dataset, self
                return self._reader

            return make

        with replaced_meanwhile(TF_KERAS_READER, {path: stand_in for path in TF_KERAS_READER.names}) as put_back:
            yield

    def begin_epoch(self) -> None:
        """Keras is about to read for it. To find the end of an epoch costs it a step that is none: once is enough."""
        self._in_epoch = 0
        if self.found_steps and self._reader._inferred_steps is None:
            self._reader._inferred_steps = self.found_steps

    def begin_batch(self) -> None:
        """Keras has an iterator, and reads from it now."""
        self._is_read = True

    def end_epoch(self) -> None:
        """A pass is over with its epoch, unless it is read on for the next."""
        self._is_over = self._is_read and self._reader._adapter.should_recreate_iterator()
        self.found_steps = (self._reader._inferred_steps or 0) if self.count == math.inf else 0
        self._done = 0


class TfKerasResume(TensorflowResume):
    """Stands around `fit` of tf_keras."""

    passes = TfKerasPasses
    numbers_the_rest_anew = False
    has_paths = False

    def _is_stream(self, asked: Dict[str, Any]) -> bool:
        data: Any = asked["x"]
        return isinstance(data, self._tensorflow.data.Dataset) or is_generator(data)

    @contextmanager
    def _entering(self, model: Model, place: Place, course: Optional[Course]) -> Iterator[None]:
        steps = place.done // course.batch if course is not None else 0
        model._maybe_load_initial_counters_from_ckpt = lambda *_: (place.epoch, steps)
        try:
            with super()._entering(model, place, course):
                yield
        finally:
            del model._maybe_load_initial_counters_from_ckpt

    def _variables(self, model: Model) -> List[Any]:
        """With the states of what layers draw random numbers from, which are no weights there."""
        sources = [getattr(layer, "_random_generator", None) for layer in model._flatten_layers()]
        generators = [getattr(source, "_generator", None) for source in sources]
        return [*super()._variables(model), *(one.state for one in generators if one is not None)]

    def _metrics(self, model: Model) -> List[Any]:
        if self._replicas(model) > 1:
            return []
        return [variable for metric in model.metrics for variable in metric.variables]

    def _count_once(self, model: Model, batch: Any) -> None:
        x, y, weight = self._keras.utils.unpack_x_y_sample_weight(batch)
        told = model(x, training=False)
        model.compute_loss(x, y, told, weight)
        model.compute_metrics(x, y, told, weight)
        model.reset_metrics()
