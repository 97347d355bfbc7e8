"""Steps of Keras' `fit`, on any backend: each begins when Keras says that its batch begins, and is over when the next one does.

How long a step waits for data cannot be seen from Python where the framework fetches it within its compiled step (TensorFlow).
There the data tell it themselves: on one device the dataset notes when it was asked, and when it answers. That costs some tenths
of a millisecond, so where steps are short it is done in some epochs only.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from typing import Any, Callable, Dict, Optional

from stoker.frameworks import verification
from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.messages import say
from stoker.frameworks.metrics.meter import Meter, meter
from stoker.frameworks.processes.cluster import cluster_of
from stoker.frameworks.replaced import TIMED_DATA, replace

from .fit import Call, surround_fit

_DEFAULT_BATCH = 32  # of Keras
_SHORT_SECONDS = 0.04  # a step for which it would be too much to time its data always
_ONE_IN = 60  # so much of the time it is done then
_WINDOWS = 10  # and at most once in so many windows
_TRACE_ONE_IN = 200  # so much of the time goes into making the dataset that tells
_SEVERAL_WORKERS = ("CollectiveAllReduceStrategy", "_CollectiveAllReduceStrategyExperimental")


def measure(keras: Any) -> None:
    """Measure the steps of this process from now on, if somebody would hear of them."""
    found = meter()
    if found is not None:
        Steps(keras, found).put_in_place()


class Steps:
    """The steps of one process."""

    def __init__(self, keras: Any, meter: Meter) -> None:
        self._keras = keras
        self._meter = meter
        self._data: Optional[Data] = None

    def put_in_place(self) -> None:
        """From now on every `fit` has one callback more."""
        surround_fit(self._keras, "measure", self._run)

    def _run(self, call: Call, fit: Callable[[], Any]) -> Any:
        try:
            callback = self._callback(call.model, self._batch(call.model, call.asked))
            given = _with(call.bound, callback)
        except Exception as error:
            say(f"steps of this fit are not measured: {error!r}")
            return fit()
        before, self._meter.kept_by = self._meter.kept_by, "fit"  # on PyTorch its optimizer would be seen, too
        try:
            return fit()
        finally:
            if callback in getattr(given, "callbacks", ()):
                given.callbacks.remove(callback)  # it may be used again
            self._meter.kept_by = before
            if self._data is not None:
                self._data.end()

    def _batch(self, model: Model, asked: Dict[str, Any]) -> int:
        """How many examples a step of this process has; 0: that is not known yet."""
        data: Any = asked.get("x")
        size: Optional[int] = None
        if hasattr(data, "element_spec"):
            try:
                size = sys.modules["tensorflow"].nest.flatten(data.element_spec)[0].shape[0]
            except (AttributeError, KeyError, LookupError, TypeError, ValueError):
                pass  # of no rank, or of none that we know
        elif hasattr(data, "shape") or isinstance(data, (list, tuple, dict)):
            size = asked.get("batch_size") or _DEFAULT_BATCH
        strategy = type(getattr(model, "distribute_strategy", None)).__name__
        return (size or 0) // (cluster_of(os.environ).processes if strategy in _SEVERAL_WORKERS else 1)

    def _callback(self, model: Model, batch: int) -> Any:
        self._meter.about["framework"] = "keras"
        strategy = getattr(model, "distribute_strategy", None)
        is_scheduled = "ParameterServer" in type(strategy).__name__
        if hasattr(model, "distribute_strategy") and not is_scheduled:  # on TensorFlow
            verification.tell_by_itself(getattr(strategy, "num_replicas_in_sync", 1))
        self._data = self._data or (None if is_scheduled else self._new_data())
        data = self._data
        if data is not None and (strategy is None or strategy.num_replicas_in_sync > 1):
            data = None  # replicas have their data fetched ahead: what they wait for, nobody can tell
        if data is not None:
            data.decide(self._meter, is_first=True)
        return _callback(self._keras, Epochs(self._meter, data, model, batch, is_scheduled=is_scheduled))

    def _new_data(self) -> Optional[Data]:
        tensorflow = sys.modules.get("tensorflow")
        config: Any = getattr(self._keras, "config", None)  # Keras 2 has no such thing, and is on TensorFlow always
        is_tensorflow = not hasattr(config, "backend") or config.backend() == "tensorflow"
        return Data(tensorflow) if tensorflow is not None and is_tensorflow else None


def _with(bound: inspect.BoundArguments, callback: Any) -> Any:
    """Add a callback, before the others: what they do is part of a step. Returns those that were given."""
    given: Any = bound.arguments.get("callbacks")
    if hasattr(given, "append") and hasattr(given, "callbacks"):
        given.append(callback)  # a CallbackList
    elif isinstance(given, (list, tuple)):
        bound.arguments["callbacks"] = [callback, *given]
    else:
        bound.arguments["callbacks"] = [callback] if given is None else [callback, given]
    return given


class Epochs:
    """One call of `fit`, by what Keras calls at its events."""

    def __init__(
        self, meter: Meter, data: Optional[Data], model: Model, batch: int, *, is_scheduled: bool = False
    ) -> None:
        """`is_scheduled`: steps are handed out to others, and done by the end of the epoch: there they are told at once."""
        self._is_scheduled = is_scheduled
        self._scheduled = 0
        self._meter = meter
        self._data = data
        self._model = model
        self._batch = batch
        self._began: Optional[int] = None  # the batch that goes on
        self._is_first = True
        self._epoch_steps, self._is_epoch_known = 0, False
        self.logs: Any = None

    def begin_epoch(self, steps: Optional[int]) -> None:
        """Decide whether this one's data are timed. `steps`: so many it has, if Keras knows it before its end."""
        self._end_step()
        self._epoch_steps, self._is_epoch_known = 0, bool(steps)
        self._meter.epoch(steps or 0)
        if self._data is not None:
            was_timed = self._data.is_wanted
            if not self._is_first:
                self._data.decide(self._meter, is_first=False)
            if self._data.is_wanted != was_timed:
                self._meter.tell()  # a window is of one kind
            self._data.begin()
        self._is_first = False

    def begin_batch(self, batch: int) -> None:
        """What was before is over."""
        if self._is_scheduled:
            if not self._scheduled:
                self._meter.begin()
            self._scheduled += _steps_at_once(self._model)
            return
        if self._began is None:
            self._meter.begin()
            if self._data is not None:
                self._data.begin()
        else:
            self._step(max(1, batch - self._began))
        self._began = batch

    def pause(self) -> None:
        """What comes now is no step: it evaluates."""
        self._end_step()
        if self._data is not None:
            self._data.pause()

    def end_epoch(self, logs: Any) -> None:
        """With its metrics."""
        self._end_step()
        self._meter.report(dict(logs or {}))
        if not self._is_epoch_known:
            self._meter.epoch(self._epoch_steps)

    def _end_step(self) -> None:
        if self._began is not None:
            self._look_at_data()
            self._step(_steps_at_once(self._model))
        elif self._scheduled:
            self._step(self._scheduled)
            self._scheduled = 0
        self._began = None

    def _step(self, steps: int) -> None:
        if self.logs:
            self._meter.report(self.logs)
            self.logs = None
        if self._meter.is_due:
            self._look_at_data()
        self._meter.step(steps, (self._batch or self._meter.batch) * steps)
        self._epoch_steps += steps

    def _look_at_data(self) -> None:
        waited, examples = self._data.take() if self._data is not None else (None, 0)
        if waited is not None:
            self._meter.waited(waited)
            self._batch = examples or self._batch


def _steps_at_once(model: Model) -> int:
    """`steps_per_execution`; in Keras 2 a variable, which may be on several devices."""
    found: Any = getattr(model, "steps_per_execution", 1)
    try:
        return max(1, int(found.numpy() if hasattr(found, "numpy") else found))
    except Exception:
        return 1


def _callback(keras: Any, epochs: Epochs) -> Any:
    class Measures(keras.callbacks.Callback):  # type: ignore[misc]
        """Asks nothing of a device: what a step has returned is kept as it is. Whatever fails in it, the program trains."""

        async_safe = True  # of Keras 3: it need not wait for the values of a step because of us
        is_off = False

        def hear(self, event: Any, *args: Any) -> None:
            if not self.is_off:
                try:
                    event(*args)
                except Exception as error:
                    self.is_off = True
                    say(f"steps of this fit are not measured any more: {error!r}")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.hear(epochs.begin_epoch, (self.params or {}).get("steps"))

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.hear(epochs.begin_batch, batch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            epochs.logs = logs if isinstance(logs, dict) else None  # of parameter servers they are somewhere else

        def on_test_begin(self, logs: Any = None) -> None:
            self.hear(epochs.pause)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.hear(epochs.end_epoch, logs)

    found = Measures()
    found._supports_tf_logs = True  # of Keras 2: the same, and it is let in where there are parameter servers
    return found


class Data:
    """The datasets that a `fit` on one device goes through."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self.is_wanted = False
        self._timed: Dict[int, Any] = {}  # of the fit that goes on, by id: the dataset, and the same timed
        self._began_at: Optional[float] = None  # since when it is timed
        self._ended_at = 0.0
        self._took = 0.0
        self._made_seconds = 0.0
        self._is_known = False  # it was timed once
        with tensorflow.device("CPU:0"), tensorflow.init_scope():
            self._waited, self._examples, self._count = (
                tensorflow.Variable(tensorflow.constant(0, kind), trainable=False)
                for kind in (tensorflow.float64, tensorflow.int64, tensorflow.int64)
            )
        replace(TIMED_DATA, {"tensorflow:data.Dataset.__iter__": self._timed_iterator})

    def _timed_iterator(self, iterate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(iterate)
        def iterate_timed(dataset: Any) -> Any:
            if not self.is_wanted or not self._tensorflow.executing_eagerly():
                return iterate(dataset)
            return iterate(self._of(dataset))

        return iterate_timed

    def decide(self, meter: Meter, *, is_first: bool) -> None:
        """Whether the epoch that begins is timed: the first of a fit now and then, the others always where steps are long."""
        now = time.perf_counter()
        self._stop(now)
        pause = max(_WINDOWS * meter.window_seconds, _ONE_IN * self._took, _TRACE_ONE_IN * self._made_seconds)
        is_due = not self._is_known or now - self._ended_at >= pause
        self.is_wanted = is_due or (not is_first and meter.mean_seconds >= _SHORT_SECONDS)
        self._began_at = now if self.is_wanted else None

    def _stop(self, now: float) -> None:
        if self._began_at is not None:
            self._is_known, self._took, self._ended_at = True, now - self._began_at, now
        self._began_at = None

    def pause(self) -> None:
        """Until it is decided again."""
        self._stop(time.perf_counter())
        self.is_wanted = False

    def end(self) -> None:
        """The fit is over."""
        self.pause()
        self._timed.clear()

    def begin(self) -> None:
        """Forget what was before."""
        for variable in (self._waited, self._examples, self._count):
            variable.assign(0)

    def take(self) -> "tuple[Optional[float], int]":
        """How long one has waited since the last time (None: nobody has looked), and the examples of a step."""
        count = int(self._count.numpy())
        if not count:
            return None, 0
        found = float(self._waited.numpy()), round(int(self._examples.numpy()) / count)
        self.begin()
        return found

    def _of(self, dataset: Any) -> Any:
        """Data, timed: made once, for tracing it costs more than it does."""
        if id(dataset) not in self._timed:
            began = time.perf_counter()
            try:
                self._timed[id(dataset)] = dataset, self._made(dataset)
            except Exception:  # whatever is in it that cannot stand in a pair: it is not timed then
                self._timed[id(dataset)] = dataset, dataset
            self._made_seconds = time.perf_counter() - began
        return self._timed[id(dataset)][1]

    def _made(self, dataset: Any) -> Any:
        tensorflow = self._tensorflow

        def asked(_: Any) -> Any:
            return tensorflow.timestamp()

        def answered(at: Any, element: Any) -> Any:
            self._waited.assign_add(tensorflow.timestamp() - at)
            self._count.assign_add(1)
            first = tensorflow.nest.flatten(element)[0]
            if isinstance(first, tensorflow.Tensor) and first.shape.rank:
                self._examples.assign_add(tensorflow.shape(first, out_type=tensorflow.int64)[0])
            return element

        optimizes = dataset.options().experimental_optimization
        ahead = dataset
        if optimizes.inject_prefetch is not False and not _is_read_ahead(dataset):
            ahead = dataset.prefetch(tensorflow.data.AUTOTUNE)  # as TensorFlow would, at the very end
        times = tensorflow.data.Dataset.counter().map(asked)
        found = tensorflow.data.Dataset.zip((times, ahead)).map(answered)
        options = tensorflow.data.Options()
        options.experimental_optimization.inject_prefetch = False  # or it would be somebody else who asks
        found = found.with_options(options)
        return found if found.element_spec == dataset.element_spec else dataset


def _is_read_ahead(dataset: Any) -> bool:
    """Whether it ends with a prefetch of its own."""
    while "Options" in type(dataset).__name__ and hasattr(dataset, "_input_dataset"):
        dataset = dataset._input_dataset
    return "Prefetch" in type(dataset).__name__
