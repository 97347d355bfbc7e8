"""Each process's part of what a DataLoader reads: while training its share, while evaluating all of it.

A loop evaluates when gradients are off, or the model that its optimizer steps was last told to evaluate.
"""

from __future__ import annotations

import functools
import inspect
import random
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List

from .cluster import Cluster
from .together import numpy
from .words import Refused

_data: Any = import_module("torch.utils.data")  # the program has imported torch


class Share:
    """The share of this process."""

    def __init__(self, torch: Any, cluster: Cluster, is_whole_model: Callable[[Any], bool]) -> None:
        """`is_whole_model`: whether a module has all that some optimizer steps."""
        self._torch = torch
        self._cluster = cluster
        self._is_whole_model = is_whole_model
        self._trains = True
        self._depth = 0  # of calls of Module.train within one another
        self._loaders = 0
        self.was_read = False
        self.last_was_whole = False
        self.batch_size = 0
        self.at_evaluation: Callable[[Any], None] = lambda module: None

    def put_in_place(self) -> None:
        """Give every DataLoader that is made from now on a sampler of ours."""
        loader, share = _data.DataLoader, self
        begin, read, train = loader.__init__, loader.__iter__, self._torch.nn.Module.train
        signature = inspect.signature(begin)

        @functools.wraps(begin)
        def begin_shared(loader: Any, *args: Any, **words: Any) -> None:
            bound = signature.bind(loader, *args, **words)
            share._replace(bound.arguments)
            begin(*bound.args, **bound.kwargs)

        @functools.wraps(read)
        def read_shared(loader: Any) -> Any:
            share.last_was_whole = share.evaluates()
            if isinstance(loader.dataset, Stream):
                loader.dataset.is_whole = share.last_was_whole
            if not share.last_was_whole:
                share.was_read, share.batch_size = True, loader.batch_size or 0
            return read(loader)

        @functools.wraps(train)
        def train_noted(module: Any, mode: bool = True) -> Any:
            share._depth += 1
            try:
                return train(module, mode)
            finally:
                share._depth -= 1
                if not share._depth and share._is_whole_model(module):
                    share._trains = mode
                    if not mode:
                        share.at_evaluation(module)

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

    def drawn(self, sampler: Any, loader: int, epoch: int) -> List[Any]:
        """All that a sampler gives, in the order that it has in all processes: by torch's, Python's or numpy's chance."""
        seed = (self._cluster.seed + 1_000_003 * loader + epoch) % (1 << 32)
        pythons, numpys = random.getstate(), numpy and numpy.random.get_state()
        try:
            with self._torch.random.fork_rng(devices=[]):
                self._torch.manual_seed(seed)
                random.seed(seed)
                if numpy is not None:
                    numpy.random.seed(seed)
                return list(sampler)
        finally:
            random.setstate(pythons)
            if numpy is not None:
                numpy.random.set_state(numpys)

    def _replace(self, asked: Dict[str, Any]) -> None:
        self._loaders += 1
        dataset = asked["dataset"]
        if isinstance(dataset, _data.IterableDataset):
            asked["dataset"] = (SizedStream if hasattr(type(dataset), "__len__") else Stream)(dataset, self._cluster)
            return
        if asked.get("batch_sampler") is not None:
            asked["batch_sampler"] = Part(self, asked["batch_sampler"], self._loaders)
            return
        sampler = asked.get("sampler")
        if sampler is None:
            generator = asked.get("generator")
            shuffles = asked.get("shuffle")
            sampler = (
                _data.RandomSampler(dataset, generator=generator) if shuffles else _data.SequentialSampler(dataset)
            )
        asked["shuffle"] = None
        asked["sampler"] = Part(self, sampler, self._loaders)


class Part:
    """A sampler that gives this process's part of what another gives."""

    def __init__(self, share: Share, sampler: Any, loader: int) -> None:
        if isinstance(sampler, _data.distributed.DistributedSampler):
            raise Refused(
                "the program shares its data among processes itself (DistributedSampler)", "say --distribute none"
            )
        if not hasattr(type(sampler), "__len__"):
            raise Refused(f"its sampler, a {type(sampler).__name__}, has no end that is known", "say --distribute none")
        self._share = share
        self._sampler = sampler
        self._loader = loader
        self._epoch = 0
        self._was_whole = False  # when it was last read

    def __iter__(self) -> Iterator[Any]:
        self._was_whole = self._share.evaluates()
        if self._was_whole:
            return iter(self._sampler)
        self._epoch += 1
        return iter(self._share.part(self._share.drawn(self._sampler, self._loader, self._epoch)))

    def __len__(self) -> int:
        size = len(self._sampler)
        return size if self._was_whole else self._share.part_size(size)

    def state_dict(self) -> Dict[str, Any]:
        """What its order depends on."""
        return {"epoch": self._epoch}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next order is the one after that."""
        self._epoch = state["epoch"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sampler, name)


class Stream(_data.IterableDataset):  # type: ignore[misc]
    """A dataset that is read from its beginning: of each so many examples in a row one for each process; the rest is nobody's."""

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
        if name.startswith("_") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)


class SizedStream(Stream):
    """One that says how long it is."""

    def __len__(self) -> int:
        size = len(self.dataset)
        return size if self.is_whole else size // self._count
