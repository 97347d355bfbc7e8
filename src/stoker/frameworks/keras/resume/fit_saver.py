"""Saves while one call of Keras' `fit` goes on, and knows where it stands."""

from __future__ import annotations

import copy
import signal
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Protocol

from stoker.frameworks.checkpointing.interval import LEAST_SHARE, Rhythm
from stoker.frameworks.keras.data.epoch_order import Course, Place
from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.messages import STOPPED_EXIT_CODE, say
from stoker.frameworks.metrics.meter import meter

numpy: Any = import_module("numpy")  # Keras has brought it
_OF_CALLBACKS = ("wait", "best", "best_epoch", "stopped_epoch", "cooldown_counter", "epochs_since_last_save")


class Writer(Protocol):
    """Who writes checkpoints: resumed_fit.py."""

    rhythm: Rhythm
    numbers_the_rest_anew: bool  # whether the first batch of what is left of an epoch is number 0

    def settle(self, model: Model) -> None: ...  # so that its variables can be read

    def save(
        self, model: Model, state: Dict[str, Any], best: Dict[int, List[Any]], chance: Dict[str, Any], *, waits: bool
    ) -> float: ...  # returns for how long training stood

    def is_due(self) -> bool: ...

    def whole_seconds(self) -> float: ...  # until the last one counted

    def is_chief(self) -> bool: ...

    def restore_metrics(self, model: Model) -> None: ...  # of an epoch that was interrupted


class Saving:
    """Saves while one call of `fit` goes on."""

    def __init__(
        self,
        writer: Writer,
        model: Model,
        place: Place,
        history: Dict[str, Any],
        callbacks: List[Any],
        known: Dict[str, Any],
    ) -> None:
        """`known`: the state of the checkpoint that it goes on from; empty for none."""
        self._writer = writer
        self._model = model
        self._began = place
        self.place = place
        self.history = history
        self._callbacks = callbacks
        self._known = known
        self._course: Optional[Course] = None
        self._save_seconds = 0.0
        self._meter = meter()
        self._epoch_began_at = time.monotonic()
        self._must_stop = False
        for callback in callbacks if known else ():
            if hasattr(callback, "append") and hasattr(callback, "append_header"):
                callback.append = True  # a CSVLogger goes on with its file

    @contextmanager
    def hears_term(self, course: Optional[Course]) -> Iterator[None]:
        """Within it a TERM is heard at the end of a batch. `course`: its data's; None: they have no places to enter."""
        self._course = course
        try:
            before = signal.signal(signal.SIGTERM, self._told_to_stop)
        except ValueError:
            say("it does not train in its main thread: no checkpoint is written on SIGTERM")
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def end(self, epochs: int) -> None:
        """All epochs are over."""
        self.place = Place(max(epochs, self.place.epoch), 0)
        self._save(is_over=True, waits=True)

    def begin(self) -> None:
        """What the program's callbacks knew of the epochs before, they have forgotten when training began: they know it again."""
        if self._course is not None:
            self._course.begin()
        for number, weights in self._known.get("best_weights", {}).items():
            if number < len(self._callbacks):
                self._callbacks[number].best_weights = weights
        for callback, numbers in zip(self._callbacks, self._known.get("callbacks", [])):
            for name, number in numbers.items():
                is_count = isinstance(getattr(callback, name, None), int)
                setattr(callback, name, int(number) if is_count else number)

    def begin_epoch(self, epoch: int) -> None:
        """An interrupted one has had its beginning: what a schedule has made of the learning rate then, it has."""
        self._epoch_began_at = time.monotonic()
        if self._course is not None:
            self._course.begin_epoch()
        if epoch != self.place.epoch:
            self.place = Place(epoch, 0)
        elif self.place.done:
            self._writer.restore_metrics(self._model)
        if self.place.done:
            set_rate(self._model, self._known)

    def callback(self, keras: Any) -> Any:
        """What Keras calls after each batch and epoch. The last of all, so that the others have done theirs."""
        saving = self

        class Saves(keras.callbacks.Callback):  # type: ignore[misc]
            """Saves when it is time."""

            _supports_tf_logs = True  # tf_keras need not make numbers of them for this

            def on_train_begin(self, logs: Any = None) -> None:
                saving.begin()

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                saving.begin_epoch(epoch)

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                if saving.is_over(batch):
                    raise StopIteration  # as if the data had run out, of which a step would hear in its middle
                saving.begin_batch()

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                saving.after_batch(batch)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                saving.after_epoch(epoch, logs or {})

        return Saves()

    def is_over(self, batch: int) -> bool:
        """Whether the epoch, which may have been entered in its middle, has no such batch."""
        return self._course is not None and self._done(batch) >= self._course.count

    def begin_batch(self) -> None:
        """The next one comes from the data now."""
        if self._course is not None:
            self._course.begin_batch()

    def after_batch(self, batch: int) -> None:
        """A batch of this epoch is done. After the last one the epoch still has its end: that is where it is saved."""
        if self._course is None:
            if self._must_stop and self._writer.is_chief():
                raise SystemExit(STOPPED_EXIT_CODE)  # it begins the epoch anew: what was saved at its beginning counts
            return
        began = self._began.done if self.place.epoch == self._began.epoch else 0
        self._course.end_batch(batch + 1 - (0 if self._writer.numbers_the_rest_anew else began // self._course.batch))
        if self._done(batch + 1) < self._course.count:
            self.place = Place(self.place.epoch, self._done(batch + 1))
            self._save_if_due()

    def _done(self, batches: int) -> int:
        """How many examples of this epoch so many batches, as Keras numbers them, bring it to."""
        assert self._course is not None
        is_rest = self.place.epoch == self._began.epoch and self._writer.numbers_the_rest_anew
        return (self._began.done if is_rest else 0) + batches * self._course.batch

    def after_epoch(self, epoch: int, logs: Dict[str, Any]) -> None:
        """An epoch is over, with its validation."""
        self.place = Place(epoch + 1, 0)
        if self._course is not None:
            self._course.end_epoch()
        self.history["epoch"].append(epoch)
        for name, value in logs.items():
            self.history["history"].setdefault(name, []).append(numpy.asarray(value).tolist())
        took = time.monotonic() - self._epoch_began_at
        if self._course is None and took >= max(LEAST_SHARE * self._save_seconds, self._writer.whole_seconds()):
            self._writer.rhythm.hurry()  # it can be entered at its beginning alone
        self._save_if_due()

    def _save_if_due(self) -> None:
        if self._must_stop or self._writer.is_due():
            self._save(waits=self._must_stop)
        if self._must_stop and self._writer.is_chief():
            raise SystemExit(STOPPED_EXIT_CODE)

    def _save(self, *, is_over: bool = False, waits: bool) -> None:
        self._writer.settle(self._model)
        optimizer = self._model.optimizer
        try:
            rate: Optional[float] = float(numpy.asarray(optimizer.learning_rate))
        except (TypeError, ValueError, AttributeError):
            rate = None
        state = {
            "place": list(self.place),
            "made": self._course.made if self._course is not None else 0,
            "reached": list(self._course.reached) if self._course is not None else [0, 0],
            "found_steps": self._course.found_steps if self._course is not None else 0,
            "history": copy.deepcopy(self.history),  # it is written while training goes on
            "is_over": is_over,
            "callbacks": [_numbers_of(callback) for callback in self._callbacks],
            "learning_rate": rate,
            "is_stopped": not self.place.done and bool(self._model.stop_training),
        }
        best = {
            number: list(callback.best_weights)
            for number, callback in enumerate(self._callbacks)
            if getattr(callback, "best_weights", None) is not None
        }
        chance = self._course.chance() if self._course is not None else {}
        self._save_seconds = self._writer.save(self._model, state, best, chance, waits=waits)
        if self._meter is not None:
            self._meter.saving(self._save_seconds)
        self._writer.rhythm.saved(self._save_seconds)

    def _told_to_stop(self, number: int, frame: Optional[FrameType]) -> None:
        self._must_stop = True


def set_rate(model: Model, state: Dict[str, Any]) -> None:
    """Let the model's optimizer have the learning rate of a checkpoint, which in tf_keras is none of its variables."""
    if state.get("learning_rate") is None:
        return
    with suppress(TypeError, ValueError, AttributeError):  # it follows a schedule by its steps
        model.optimizer.learning_rate = state["learning_rate"]


def _numbers_of(callback: Any) -> Dict[str, float]:
    """The numbers that well-known callbacks keep from epoch to epoch."""
    found = {name: getattr(callback, name, None) for name in _OF_CALLBACKS}
    return {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}
