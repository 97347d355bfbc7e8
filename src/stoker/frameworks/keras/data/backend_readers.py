"""What `fit` of Keras on JAX or PyTorch reads, so that an epoch can be entered in its middle (resumed_fit.py)."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Optional

from stoker.frameworks.checkpointing.data_sources import Source
from stoker.frameworks.checkpointing.rng import draw_from, drawn_so_far
from stoker.frameworks.replaced import READERS

from .dataset_passes import ENDLESS, Passes, is_generator
from .epoch_order import Order, Place, Reached, Read, as_tensors

_ADAPTERS = "keras.src.trainers.data_adapters"
_NOT_KNOWN = -2
_INNER = ("_dataset", "_dataloader")
"""Where Keras' adapters of datasets of TensorFlow and of loaders of PyTorch have them."""


def is_known(backend: str) -> bool:
    """Whether this version of Keras is made as those that were tried: it takes adapters, and has readers, of a known form."""
    try:
        kind: Any = import_module(f"{_ADAPTERS}.array_data_adapter").ArrayDataAdapter
        one = kind(import_module("numpy").zeros((1, 1)))
        (path,) = READERS[backend].names
        module, _, name = path.partition(":")
        reader: Any = getattr(import_module(module), name)
        is_taken = import_module(_ADAPTERS).get_data_adapter(one) is one
    except (ImportError, AttributeError, TypeError, ValueError):
        return False
    return is_taken and hasattr(kind, "_get_iterator") and hasattr(reader, "_get_iterator")


def is_arrays(asked: Dict[str, Any]) -> bool:
    """Whether `fit` is given examples that can be taken in any order."""
    arrays: Any = import_module(f"{_ADAPTERS}.array_data_adapter")
    given = tuple(asked.get(name) for name in ("x", "y", "sample_weight"))
    return not asked.get("steps_per_epoch") and bool(arrays.can_convert_arrays(given))


class _Ordered(Order):
    """Arrays; what layers of PyTorch draw besides goes on where it was."""

    kept: Optional[Dict[str, Any]] = None

    def begin_epoch(self) -> None:
        """Keras is about to read for it."""
        if self.kept:
            draw_from(self.kept["now"]["chance"])
        self.kept = None

    def chance(self) -> Dict[str, Any]:
        """Where it stands."""
        return {"now": {"chance": drawn_so_far()}}


def put_in_order(
    keras: Any,
    asked: Dict[str, Any],
    batch: int,
    seed: "tuple[int, int]",
    place: Callable[[], Place],
    chance: Dict[str, Any],
) -> Order:
    """Replace the arrays that `fit` is given by what goes through them in an order of ours.

    `chance`: what an earlier attempt has kept of it; empty: there was none.
    """
    x, y, weight = (asked.pop(name, None) for name in ("x", "y", "sample_weight"))
    if asked.get("validation_split") and asked.get("validation_data") is None:
        slicing: Any = import_module(f"{_ADAPTERS}.array_slicing")
        (x, y, weight), held_out = slicing.train_validation_split((x, y, weight), asked.pop("validation_split"))
        asked["validation_data"] = held_out
    kind: Any = import_module(f"{_ADAPTERS}.array_data_adapter").ArrayDataAdapter

    class InOrder(kind):  # type: ignore[misc]
        """Keras' own adapter of arrays, but for the order."""

        def _get_iterator(self, convert: Callable[..., Any], inputs: Any) -> Iterator[Any]:
            indices, nest = order.indices(), import_module("keras.src.tree")
            for first in range(0, len(indices), batch):
                some = functools.partial(convert, indices=indices[first : first + batch])
                yield nest.map_structure(some, inputs, none_is_leaf=False)

        def get_torch_dataloader(self) -> Iterator[Any]:
            return as_tensors(keras, self.get_numpy_iterator())

    adapter = InOrder(x, y, weight, batch_size=batch, class_weight=asked.pop("class_weight", None))
    order = _Ordered(seed, adapter._num_samples, batch, bool(asked.get("shuffle", True)), place)
    order.kept = chance
    asked.update(x=adapter, shuffle=False)
    asked.pop("batch_size", None)
    if asked.get("validation_data") is not None:
        asked.setdefault("validation_batch_size", batch)
    return order


def is_stream(asked: Dict[str, Any]) -> bool:
    """Whether it is given what is read from its beginning."""
    adapters: Any = import_module(_ADAPTERS)
    data = asked["x"]
    return bool(adapters.is_tf_dataset(data) or adapters.is_torch_dataloader(data) or is_generator(data))


class Streamed(Passes):
    """The passes that one call of `fit` makes through a dataset of TensorFlow, a loader of PyTorch, or a generator."""

    def __init__(
        self,
        backend: str,
        asked: Dict[str, Any],
        owed: List[Read],
        reached: Reached,
        done: int,
        chance: Dict[str, Any],
    ) -> None:
        """As `Passes`. `chance`: what an earlier attempt has kept of it; empty: there was none."""
        data = asked["x"]
        self._is_generator = is_generator(data)
        self._source = Source(data)
        super().__init__(asked, self._length(data), owed, reached, done)
        self.backend = backend
        self._kept = chance
        self._begun: Optional[Dict[str, Any]] = None  # the source's state when the pass began that is read
        self._open: Callable[[], Iterator[Any]] = lambda: iter(data)
        self._original: Callable[[], Any]

    def _length(self, data: Any) -> int:
        if hasattr(data, "cardinality"):
            return int(data.cardinality())
        return ENDLESS if self._is_generator else self._source.length if self._source.length >= 0 else _NOT_KNOWN

    def begin_epoch(self) -> None:
        """Keras is about to read for it."""
        super().begin_epoch()
        if self._iterator is None and self._kept:
            draw_from(self._kept["now"]["chance"])

    def chance(self) -> Dict[str, Any]:
        """Where it stands, and what the pass that is read began with."""
        is_amid = self._is_read and not self._is_over
        return {"begun": self._begun if is_amid else None, "now": self._source.state()}

    def _take(self) -> None:
        reader = self._reader
        self._original = reader._get_iterator
        for name in _INNER:
            inner = getattr(reader.data_adapter, name, None)
            if inner is not None:
                self._source = Source(inner)  # with the weights of classes, if there are some
                setattr(reader.data_adapter, name, _Opened(inner, lambda: self._open()))

    def _entered(self) -> Any:
        passes, steps = self._began_at
        if self._is_generator:
            return _passed_over(self._original(), steps + sum(read.steps for read in self._owed), self._kept.get("now"))
        owed = sum(read.made for read in self._owed if not self._is_endless)
        self._open = lambda: self._go_on(passes, owed, steps)
        return iter(self._original())

    def _go_on(self, passes: int, owed: int, steps: int) -> Iterator[Any]:
        self.made += passes
        passes += owed
        for read in self._owed if self._is_endless else ():  # it draws an order each time it begins anew
            next(self._source.begin(0, read.steps - 1), None)
        now, begun = self._kept.get("now"), self._kept.get("begun")
        if now is None:
            return self._begin(passes)
        if begun is None:
            draw_from(now["chance"])
            self._source.put_back(now)
            return self._begin(passes)
        self._begun = begun
        self.made += 1
        return self._source.enter(begun, now, steps, passes)

    def _begin(self, passes: int) -> Iterator[Any]:
        self._begun = self._source.state()
        self.made += 1
        return self._source.begin(passes)

    def _once_more(self) -> Any:
        self._open = lambda: self._begin(0)  # the others were made by this attempt
        return iter(self._original())


class _Opened:
    """A dataset or loader, but for what is read of it."""

    def __init__(self, data: Any, opened: Callable[[], Iterator[Any]]) -> None:
        self._data, self._opened = data, opened

    def __iter__(self) -> Iterator[Any]:
        yield from self._opened()  # when it is first read, not before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)


def _passed_over(batches: Any, steps: int, now: Optional[Dict[str, Any]]) -> Iterator[Any]:
    items = iter(batches)
    for _ in range(steps):
        next(items, None)
    if now is not None:
        draw_from(now["chance"])
    yield from items
