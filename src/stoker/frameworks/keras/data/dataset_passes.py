"""The passes that `fit` makes through a dataset, counted so that one can be entered in its middle (tf_data.py).

Keras 3 makes iterators that it never reads from; they are kept for when it does.
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Optional

from stoker.frameworks.checkpointing.tf_data import entered
from stoker.frameworks.replaced import READERS, replaced_meanwhile

from .epoch_order import Course, Reached, Read

ENDLESS = -1
"""How many batches there are: no end, as tf.data has it. Below: that is not known."""


def is_stream(asked: Dict[str, Any], tensorflow: Any) -> bool:
    """Whether `fit` is given what is read from its beginning, in a version of Keras that can be stood in for."""
    data: Any = asked["x"]
    kind: Any = import_module("keras.src.backend.tensorflow.trainer")
    reader: Any = getattr(kind, "TFEpochIterator", None)
    is_known = hasattr(reader, "_get_iterator") and hasattr(reader, "_enumerate_iterator")
    return is_known and (isinstance(data, tensorflow.data.Dataset) or is_generator(data))


def is_generator(data: Any) -> bool:
    """Whether it can be read once, from its beginning. What has numbered batches as well draws its own order, at any time."""
    return hasattr(data, "__next__") and not hasattr(data, "__getitem__")


class Passes(Course):
    """The passes over the data of one call of `fit`, counted in steps. Keras iterates over it for each."""

    backend = "tensorflow"

    def __init__(self, asked: Dict[str, Any], length: int, owed: List[Read], reached: Reached, done: int) -> None:
        """`asked`: what `fit` is given. `length`: how many batches that has. `owed`: what earlier calls have read of it, in
        attempts before this one. `reached`: where to begin; `done`: so many steps of this epoch are behind it.
        """
        self._data: Any = asked["x"]
        self._steps: Optional[int] = asked.get("steps_per_epoch")
        self.count = self._steps or max(0, length) or math.inf  # steps of an epoch
        self._is_endless = length == ENDLESS
        self._owed = owed
        self._done = done
        self._now = reached
        self._began_at = reached
        self._reader: Any = None
        self._iterator: Any = None
        self._has_begun = False
        self._is_read = False
        self._is_over = False  # the pass, at the end of an epoch
        self._in_epoch = 0  # steps of this attempt

    @property
    def reached(self) -> Reached:  # type: ignore[override]
        """Where the next step is."""
        return Reached(self._now.passes + 1, 0) if self._is_over else self._now

    @contextmanager
    def stand_in(self) -> Iterator[None]:
        """Within it the first reader that Keras makes, which is the one that it trains from, reads from here."""

        def stand_in(kind: Any) -> Callable[..., Any]:
            def make(*args: Any, **words: Any) -> Any:
                put_back()
                self._reader = kind(*args, **words)
                self._take()
                self._reader._get_iterator = lambda: self
                return self._reader

            return make

        change = READERS[self.backend]
        with replaced_meanwhile(change, {path: stand_in for path in change.names}) as put_back:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Your input ran out of data")  # an entered epoch is shorter
                yield

    def _take(self) -> None:
        """Keras has made its reader."""

    def __iter__(self) -> Any:
        if not self._has_begun:  # it looks at a batch to build the model
            return self._once_more()
        if self._iterator is None:
            self._iterator = self._entered()
        elif self._is_read:
            self._now = Reached(self._now.passes + 1, 0)
            self._iterator, self._is_read, self._is_over = self._once_more(), False, False
        return self._iterator

    def _entered(self) -> Any:
        """What is left of the pass that was interrupted."""
        self.made += self._began_at.passes + 1
        dataset, passes = self._reader._distributed_dataset, self._began_at.passes
        for read in self._owed:
            if self._is_endless:  # it draws an order each time it begins anew
                next(entered(dataset, 0, read.steps - 1, self._data), None)
            else:
                passes += read.made
        return entered(dataset, passes, self._began_at.steps, self._data)

    def _once_more(self) -> Any:
        """Another pass."""
        self.made += 1
        return iter(self._reader._distributed_dataset)

    def begin(self) -> None:
        """What is read from now on is trained on."""
        self._has_begun = True

    def begin_epoch(self) -> None:
        """Keras is about to read for it."""
        self._in_epoch = 0
        if self._steps and self._done:
            self._reader.steps_per_epoch = self._steps - self._done  # until it has read that number

    def begin_batch(self) -> None:
        """Keras has an iterator, and reads from it now."""
        if self._steps and not self._is_read and self._now == self._began_at:
            self._reader.steps_per_epoch = self._steps
            self._reader._steps_seen += self._began_at.steps
        self._is_read = True

    def end_batch(self, batches: int) -> None:
        """So many of this epoch are done, in this attempt."""
        self._now = Reached(self._now.passes, self._now.steps + batches - self._in_epoch)
        self._in_epoch = batches

    def end_epoch(self) -> None:
        """A pass is over with its epoch, unless epochs are so many steps; there it is when they were fewer."""
        self._is_over = self._is_read and (not self._steps or self._done + self._in_epoch < self._steps)
        if self._done and self.count == math.inf:
            self._reader._num_batches = None  # Keras takes what was left of the epoch for all of it
        elif self._done and not self._steps:
            iter(self)  # Keras would have made the next one by now, had it not been stopped
        self._done = 0
