"""Data that a program trains on, entered in the middle of an epoch: in the order, and with the chance, that they had."""

from __future__ import annotations

import copy
import sys
from typing import Any, Callable, Dict, Iterator, List

from stoker.frameworks.checkpointing.parts.part import has_state

from .rng import draw_from, drawn_so_far
from .tf_data import entered


class Source:
    """What batches come from."""

    def __init__(self, data: Any) -> None:
        """`data`: a DataLoader of PyTorch, a list, a tf.data.Dataset, what keeps its place itself, or can be read."""
        self._data = data
        self.keeps_its_place = has_state(data)
        samplers = [getattr(data, "sampler", None), getattr(data, "batch_sampler", None)]
        samplers.append(getattr(samplers[1], "sampler", None))
        samplers.append(getattr(getattr(data, "dataset", None), "pass_number", None))  # of data_shares.py
        torch: Any = sys.modules.get("torch")
        kind = torch.Generator if torch is not None else ()
        found = [getattr(thing, "generator", None) for thing in (data, *samplers)]
        self._generators: List[Any] = list({id(one): one for one in found if isinstance(one, kind)}.values())
        sizes = [getattr(thing, "batch_size", None) for thing in (data, *samplers)]
        self.batch_size = next((size for size in sizes if isinstance(size, int)), 0)
        """How many examples are in a batch; 0: that is not known."""
        self.length = _length(data)
        self._samplers: List[Any] = list({id(one): one for one in samplers if has_state(one)}.values())

    def state(self) -> Dict[str, Any]:
        """Where it is, and where chance stands."""
        return {
            "chance": drawn_so_far(),
            "generators": [generator.get_state() for generator in self._generators],
            "samplers": [sampler.state_dict() for sampler in self._samplers],
            "data": self._data.state_dict() if self.keeps_its_place else None,
        }

    def put_back(self, state: Dict[str, Any]) -> None:
        """Put the source's own state back as it was; chance stays where it is."""
        for generator, its in zip(self._generators, state["generators"]):
            generator.set_state(its)
        for sampler, its in zip(self._samplers, state["samplers"]):
            sampler.load_state_dict(its)
        if self.keeps_its_place and state["data"] is not None:
            self._data.load_state_dict(state["data"])

    def begin(self, passes: int, done: int = 0) -> Iterator[Any]:
        """All of it, once more. `passes`: so many were made by attempts before this one, and none by this one.

        `done`: batches of a dataset of TensorFlow that are left out.
        """
        return entered(self._data, passes, done, self._data) if self._is_dataset() else iter(self._data)

    def enter(self, begun: Dict[str, Any], now: Dict[str, Any], done: int, passes: int) -> Iterator[Any]:
        """What is left after so many batches. `begun`: its state when the first was asked for; `now`: when the next is."""
        if self.keeps_its_place:
            self.put_back(now)
            draw_from(now["chance"])
            return iter(self._data)
        draw_from(begun["chance"])
        self.put_back(begun)
        return self._rest(done, passes, lambda: self._go_on(now))

    def _go_on(self, now: Dict[str, Any]) -> None:
        draw_from(now["chance"])
        for generator, its in zip(self._generators, now["generators"]):
            generator.set_state(its)

    def _rest(self, done: int, passes: int, then: Callable[[], None]) -> Iterator[Any]:
        data = self._data
        loading: Any = sys.modules.get("torch.utils.data")
        if loading is not None and isinstance(data, loading.DataLoader) and not _is_stream(data, loading):
            # The same loader, but for the indices that it is given: nothing that was trained on is read.
            rest = copy.copy(data)
            name = "sampler" if data.batch_sampler is None else "batch_sampler"
            rest.__dict__.update({name: _Rest(getattr(data, name), done, then), "_iterator": None})
            return iter(rest)
        if isinstance(data, (list, tuple)):
            then()
            return iter(data[done:])
        if self._is_dataset():
            then()
            return iter(entered(data, passes, done, data))
        return _passed_over(data, done, then)

    def _is_dataset(self) -> bool:
        tensorflow: Any = sys.modules.get("tensorflow")
        return tensorflow is not None and isinstance(self._data, tensorflow.data.Dataset)


class _Rest:
    """What a sampler of PyTorch gives after its first ones."""

    def __init__(self, sampler: Any, done: int, then: Callable[[], None]) -> None:
        """`then` is called when those are passed over."""
        self._sampler, self._done, self._then = sampler, done, then

    def __iter__(self) -> Iterator[Any]:
        indices = iter(self._sampler)
        for _ in range(self._done):
            next(indices, None)
        self._then()
        yield from indices

    def __len__(self) -> int:
        return max(0, len(self._sampler) - self._done)


def _length(data: Any) -> int:
    """How many batches there are; -1: that is not known."""
    try:
        return len(data)
    except Exception:  # whatever a loader of a stream says
        return -1


def _passed_over(data: Any, done: int, then: Callable[[], None]) -> Iterator[Any]:
    items = iter(data)
    for _ in range(done):
        next(items, None)
    then()
    yield from items


def _is_stream(loader: Any, loading: Any) -> bool:
    return isinstance(loader.dataset, loading.IterableDataset)
