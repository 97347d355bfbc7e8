"""Batches that `fit` asks for by their numbers (keras.utils.PyDataset), so that an epoch can be entered in its middle.

Their order is ours, as that of arrays is. What such an object has changed of itself, such as lists that it shuffles at the end of
an epoch, is kept with the checkpoint: all of that, or none, for lists that belong together must not be torn apart.
"""

from __future__ import annotations

import random
import zlib
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, Optional

from stoker.frameworks.checkpointing.parts.part import as_bytes
from stoker.frameworks.checkpointing.rng import draw_from, drawn_so_far

from .epoch_order import Order, Place, as_tensors

numpy: Any = import_module("numpy")  # Keras has brought it
_ADAPTER = "keras.src.trainers.data_adapters.py_dataset_adapter"
_MOST_BYTES = 64 << 20
"""A list or an array that is larger is the data themselves: of those it is only looked whether they have changed."""

_END_BYTES = 4096
_KEPT = (int, float, list, tuple, random.Random, numpy.ndarray, numpy.random.Generator, numpy.random.RandomState)


def is_numbered(keras: Any, asked: Dict[str, Any]) -> bool:
    """Whether `fit` is given batches with numbers, read in its own thread: workers have an order of their own."""
    kind: Any = getattr(keras.utils, "PyDataset", None)  # Keras 2 has none
    data = asked["x"]
    if kind is None or not isinstance(data, kind) or asked.get("steps_per_epoch"):
        return False
    adapter: Any = getattr(import_module(_ADAPTER), "PyDatasetAdapter", None)
    has_workers = data.workers > 1 or (data.workers > 0 and data.use_multiprocessing)
    return hasattr(adapter, "_finite_generator") and not has_workers and data.num_batches is not None


class Numbered(Order):
    """The order of the batches of one object. Its places are batches."""

    def __init__(
        self, data: Any, seed: "tuple[int, int]", shuffles: bool, place: Callable[[], Place], kept: Dict[str, Any]
    ) -> None:
        """As `Order`. `kept`: what `chance` has told in an earlier attempt; empty: there was none."""
        super().__init__(seed, int(data.num_batches), 1, shuffles, place)
        self._data = data
        self._kept = kept
        self._has_begun = False
        self._began_with = {name: _print_of(value) for name, value in vars(data).items()}

    def begin_epoch(self) -> None:
        """Keras is about to read for it."""
        for name, value in self._kept.get("attributes", {}).items():
            setattr(self._data, name, value)
        self.count = int(self._data.num_batches)  # some have others in each epoch
        self._has_begun = True

    def begin_reading(self) -> None:
        """The first batch is about to be read: what Keras has drawn to be able to read is forgotten."""
        if not self._has_begun:
            return  # Keras looks at a batch to build the model
        if self._kept:
            draw_from(self._kept["chance"])
        self._kept = {}

    def chance(self) -> Dict[str, Any]:
        """Where it stands, and what the object has that may change."""
        changed = {n: value for n, value in vars(self._data).items() if _print_of(value) != self._began_with.get(n)}
        can_be_kept = all(_is_small(value) for value in changed.values())
        return {"chance": drawn_so_far(), "attributes": changed if can_be_kept else {}}


def put_in_order(
    keras: Any, asked: Dict[str, Any], seed: "tuple[int, int]", place: Callable[[], Place], kept: Dict[str, Any]
) -> Numbered:
    """Let `fit` ask for the batches in an order of ours."""
    data = asked["x"]
    kind: Any = import_module(_ADAPTER).PyDatasetAdapter
    order = Numbered(data, seed, bool(asked.get("shuffle", True)), place, kept)

    class InOrder(kind):  # type: ignore[misc]
        """Keras' own adapter, but for the order."""

        def _finite_generator(self) -> Iterator[Any]:
            order.begin_reading()
            for number in order.indices():
                yield self._standardize_batch(self.py_dataset[int(number)])

        def get_torch_dataloader(self) -> Iterator[Any]:
            return as_tensors(keras, self.get_numpy_iterator())

    asked["x"] = InOrder(data, class_weight=asked.pop("class_weight", None))
    asked["shuffle"] = False
    return order


def first_of(data: Any) -> Any:
    """The batch with the number 0. Chance stands afterwards where it stood."""
    before = drawn_so_far()
    batch = data[0]
    draw_from(before)
    return tuple(batch) if isinstance(batch, list) else batch


def inputs_of(data: Any) -> Any:
    """The inputs of a batch, without what is to be learned from them."""
    batch = first_of(data)
    return batch[0] if isinstance(batch, tuple) else batch


def _print_of(value: Any) -> Optional[int]:
    """Another one when it has changed. None: of a kind that is left alone, such as a connection."""
    if isinstance(value, numpy.ndarray) and not _is_small(value):
        flat = value.reshape(-1) if value.flags.c_contiguous else value[:1].reshape(-1)
        return zlib.crc32(flat[:_END_BYTES].tobytes() + flat[-_END_BYTES:].tobytes())
    if not isinstance(value, _KEPT):
        return None
    try:
        return zlib.crc32(as_bytes(value))
    except Exception:  # whatever is in a list
        return None


def _is_small(value: Any) -> bool:
    """Whether it can be kept."""
    if isinstance(value, numpy.ndarray):
        return bool(value.nbytes <= _MOST_BYTES and value.dtype.kind != "O")
    try:
        return len(as_bytes(value)) <= _MOST_BYTES
    except Exception:  # whatever it is now
        return False
