"""Each process's part of what a DataLoader reads: while training its share, while evaluating all of it.

A loop evaluates when gradients are off, or the last model that was told of its mode was told to evaluate.
"""

from __future__ import annotations

import functools
import inspect
from importlib import import_module
from typing import Any, Iterator, List, Tuple

from .cluster import Cluster


class Share:
    """The share of this process."""

    def __init__(self, torch: Any, cluster: Cluster) -> None:
        self._torch = torch
        self._cluster = cluster
        self._data: Any = import_module("torch.utils.data")
        self._trains = True
        self._loaders = 0
        self.was_read = False
        self.batch_size = 0

    def put_in_place(self) -> None:
        """Give every DataLoader that is made from now on a sampler of ours."""
        loader, share = self._data.DataLoader, self
        begin, read, train = loader.__init__, loader.__iter__, self._torch.nn.Module.train
        signature = inspect.signature(begin)

        @functools.wraps(begin)
        def begin_shared(loader: Any, *args: Any, **words: Any) -> None:
            bound = signature.bind(loader, *args, **words)
            share._replace(bound.arguments)
            begin(*bound.args, **bound.kwargs)

        @functools.wraps(read)
        def read_shared(loader: Any) -> Any:
            is_whole = share.evaluates()
            if isinstance(loader.dataset, _STREAMS):
                loader.dataset.is_whole = is_whole
            if not is_whole:
                share.was_read, share.batch_size = True, loader.batch_size or 0
            return read(loader)

        @functools.wraps(train)
        def train_noted(module: Any, mode: bool = True) -> Any:
            share._trains = mode
            return train(module, mode)

        loader.__init__, loader.__iter__, self._torch.nn.Module.train = begin_shared, read_shared, train_noted

    def evaluates(self) -> bool:
        """Whether the program does not train now, as far as can be seen."""
        return not (self._trains and self._torch.is_grad_enabled())

    def part(self, indices: List[Any]) -> List[Any]:
        """This process's of all. Some at the beginning are read twice, so that all have as many."""
        count = self._cluster.processes
        while indices and len(indices) % count:
            indices = indices + indices[: count - len(indices) % count]
        return indices[self._cluster.rank :: count]

    def part_size(self, size: int) -> int:
        """How many those are."""
        return -(-size // self._cluster.processes)

    def seed(self, loader: int, epoch: int) -> int:
        """The same in all processes, another for each loader and each time it is read."""
        return self._cluster.seed + 1_000_003 * loader + epoch

    def _replace(self, asked: Any) -> None:
        self._loaders += 1
        data, dataset = self._data, asked["dataset"]
        if isinstance(dataset, data.IterableDataset):
            stream = _stream_class(data)(dataset, self._cluster)
            asked["dataset"] = stream
            return
        if asked.get("batch_sampler") is not None:
            asked["batch_sampler"] = Part(self, self._torch, asked["batch_sampler"], self._loaders)
            return
        sampler = asked.get("sampler")
        if sampler is None:
            generator = asked.get("generator")
            is_shuffled = asked.get("shuffle")
            sampler = (
                data.RandomSampler(dataset, generator=generator) if is_shuffled else data.SequentialSampler(dataset)
            )
        asked["shuffle"] = None
        asked["sampler"] = Part(self, self._torch, sampler, self._loaders)


class Part:
    """A sampler that gives this process's part of what another gives. All processes draw the same order."""

    def __init__(self, share: Share, torch: Any, sampler: Any, loader: int) -> None:
        self._share = share
        self._torch = torch
        self._sampler = sampler
        self._loader = loader
        self._epoch = 0

    def __iter__(self) -> Iterator[Any]:
        if self._share.evaluates():
            return iter(self._sampler)
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(self._share.seed(self._loader, self._epoch))
            indices = list(self._sampler)
        self._epoch += 1
        return iter(self._share.part(indices))

    def __len__(self) -> int:
        size = len(self._sampler)
        return size if self._share.evaluates() else self._share.part_size(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_sampler"], name)


_STREAMS: Tuple[Any, ...] = ()
"""The classes of datasets that can only be read from the beginning to the end, as we give them."""


def _stream_class(data: Any) -> Any:
    """Made when the first is needed: its base is torch's."""
    global _STREAMS
    if _STREAMS:
        return _STREAMS[0]

    class Stream(data.IterableDataset):  # type: ignore[misc]
        """Of each so many examples in a row, one for each process. What is left at the end is nobody's."""

        def __init__(self, dataset: Any, cluster: Cluster) -> None:
            super().__init__()
            self.dataset = dataset
            self.is_whole = False
            self._rank, self._count = cluster.rank, cluster.processes

        def __iter__(self) -> Iterator[Any]:
            if self.is_whole:
                yield from self.dataset
                return
            group: List[Any] = []
            for example in self.dataset:
                group.append(example)
                if len(group) == self._count:
                    yield group[self._rank]
                    group = []

        def __getattr__(self, name: str) -> Any:
            if name == "dataset":
                raise AttributeError(name)
            return getattr(self.dataset, name)

    _STREAMS = (Stream,)
    return Stream
