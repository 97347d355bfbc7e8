"""Each process's part of what a DataLoader reads: while training its share, while evaluating all of it.

A loop evaluates when gradients are off, or the model that its optimizer steps was last told to evaluate; before there is an
optimizer, it looks at its data.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Set

from .chance import draw_alike, drawing_alike
from .cluster import Cluster
from .words import Refused

_data: Any = import_module("torch.utils.data")  # the program has imported torch


class Share:
    """The share of this process."""

    def __init__(
        self, torch: Any, cluster: Cluster, is_whole_model: Callable[[Any], bool], can_train: Callable[[], bool]
    ) -> None:
        """`is_whole_model`: whether a module has all that some optimizer steps. `can_train`: whether there is an optimizer."""
        self._torch = torch
        self._cluster = cluster
        self._is_whole_model = is_whole_model
        self.can_train = can_train
        self._trains = True
        self._depth = 0  # of calls of Module.train within one another
        self._loaders = 0
        self.trained_on: Set[int] = set()  # loaders, by their numbers
        self.was_read = False
        self.was_looked_at = False  # before there was an optimizer
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
            if isinstance(loader.dataset, Stream):
                share.note(loader.dataset.begin(share.evaluates()), loader.batch_size or 0)
            return read(loader)

        @functools.wraps(train)
        def train_noted(module: Any, mode: bool = True) -> Any:
            share._depth += 1
            try:
                return train(module, mode)
            finally:
                share._depth -= 1
                if not share._depth:
                    if share._is_whole_model(module):
                        share._trains = mode
                    if not mode:
                        share.at_evaluation(module)

        loader.__init__, loader.__iter__, self._torch.nn.Module.train = begin_shared, read_shared, train_noted

    def evaluates(self) -> bool:
        """Whether the program does not train now, as far as can be seen."""
        return not (self._trains and self.has_gradients() and self.can_train())

    def trains_anew(self) -> None:
        """There is another optimizer: what it steps is trained, whatever was evaluated before."""
        self._trains = True

    def has_gradients(self) -> bool:
        """Whether what is computed now could be trained by."""
        return bool(self._torch.is_grad_enabled())

    def note(self, is_whole: bool, batch_size: int) -> None:
        """That data are read now, by everybody all of them or a share."""
        self.last_was_whole = is_whole
        self.was_looked_at |= is_whole and not self.can_train()
        if not is_whole:
            self.was_read, self.batch_size = True, batch_size

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
        with drawing_alike(seed):
            return list(sampler)

    def _replace(self, asked: Dict[str, Any]) -> None:
        self._loaders += 1
        dataset = asked["dataset"]
        if isinstance(dataset, _data.IterableDataset):
            kind = SizedStream if hasattr(type(dataset), "__len__") else Stream
            asked["dataset"] = kind(dataset, self._cluster, self._loaders)
            return
        if asked.get("batch_sampler") is not None:
            if not isinstance(getattr(asked["batch_sampler"], "sampler", None), Part):  # it is that of another loader
                size = getattr(asked["batch_sampler"], "batch_size", None) or 0
                asked["batch_sampler"] = Part(self, asked["batch_sampler"], self._loaders, size)
            return
        sampler = asked.get("sampler")
        if isinstance(sampler, Part):
            sampler = sampler.whole
        if sampler is None:
            generator = asked.get("generator")
            shuffles = asked.get("shuffle")
            sampler = (
                _data.RandomSampler(dataset, generator=generator) if shuffles else _data.SequentialSampler(dataset)
            )
        asked["shuffle"] = None
        asked["sampler"] = Part(self, sampler, self._loaders, asked.get("batch_size", 1) or 0)


class Part:
    """A sampler that gives this process's part of what another gives."""

    def __init__(self, share: Share, sampler: Any, loader: int, batch_size: int) -> None:
        if isinstance(sampler, _data.distributed.DistributedSampler) or _is_shared(sampler):
            raise Refused(
                "the program, or a library that it uses, shares its data among processes itself "
                f"({type(sampler).__name__})",
                "say --distribute none: the variables that it needs for that are set",
            )
        if not hasattr(type(sampler), "__len__"):
            raise Refused(f"its sampler, a {type(sampler).__name__}, has no end that is known", "say --distribute none")
        self._share = share
        self.whole = sampler
        self._loader = loader
        self._batch_size = batch_size
        self._epoch = 0
        self._was_whole: "bool | None" = None  # when it was last read; None: it was not
        self._was_looked_at = False  # then: there was no optimizer yet

    def __iter__(self) -> Iterator[Any]:
        self._was_whole, self._was_looked_at = self._share.evaluates(), not self._share.can_train()
        self._share.note(self._was_whole, self._batch_size)
        if self._was_whole:
            return iter(self.whole)
        self._epoch += 1
        self._share.trained_on.add(self._loader)
        return iter(self._share.part(self._share.drawn(self.whole, self._loader, self._epoch)))

    def __len__(self) -> int:
        """As it will be read, as far as can be seen. Many programs ask before they say that they evaluate."""
        size = len(self.whole)
        is_whole = self._was_whole
        is_open = is_whole is None or (self._was_looked_at and self._share.can_train())
        if is_open:  # what is not shuffled is to evaluate by, where something else is trained on
            shuffles = not isinstance(self.whole, _data.SequentialSampler)
            is_whole = not shuffles and bool(self._share.trained_on - {self._loader})
        return size if is_whole or not self._share.has_gradients() else self._share.part_size(size)

    def state_dict(self) -> Dict[str, Any]:
        """What its order depends on."""
        return {"epoch": self._epoch}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next order is the one after that."""
        self._epoch = state["epoch"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)


def _is_shared(sampler: Any) -> bool:
    """Whether somebody else takes a part of what a loader of ours has a part of: accelerate does so."""
    inner = getattr(sampler, "batch_sampler", None)
    return isinstance(inner, Part) or isinstance(getattr(inner, "sampler", None), Part)


class PassNumber:
    """How many times a stream was trained on: its chance depends on it."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> Dict[str, Any]:
        """The number."""
        return {"value": self.value}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next pass is the one after that."""
        self.value = state["value"]


class Stream(_data.IterableDataset):  # type: ignore[misc]
    """A dataset that is read from its beginning: of each so many examples in a row one for each process; the rest is nobody's."""

    def __init__(self, dataset: Any, cluster: Cluster, loader: int) -> None:
        super().__init__()
        self.dataset = dataset
        self.pass_number = PassNumber()
        torch: Any = import_module("torch")
        self._told = torch.zeros(2, dtype=torch.int64).share_memory_()  # also to workers that stay
        self._seed = cluster.seed + 1_000_003 * loader
        self._rank, self._count = cluster.rank, cluster.processes

    def begin(self, is_whole: bool) -> bool:
        """A loader is about to read it. Returns whether each process reads all of it."""
        if not is_whole:
            self.pass_number.value += 1
        self._told[0], self._told[1] = int(is_whole), self.pass_number.value
        return is_whole

    @property
    def is_whole(self) -> bool:
        """Whether each process reads all of it."""
        return bool(self._told[0])

    def __iter__(self) -> Iterator[Any]:
        if self.is_whole:
            yield from self.dataset
            return
        seed = self._seed + 7_368_787 * int(self._told[1])
        worker = _data.get_worker_info()
        if worker is not None:  # which draws for nothing else
            draw_alike(seed + worker.id)
        with (
            drawing_alike(seed) if worker is None else nullcontext()
        ):  # a shuffle of all is drawn with the first example
            examples = iter(self.dataset)
            group = list(itertools.islice(examples, self._count))
        while len(group) == self._count:
            yield group[self._rank]
            group = list(itertools.islice(examples, self._count))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)


class SizedStream(Stream):
    """One that says how long it is."""

    def __len__(self) -> int:
        size = len(self.dataset)
        return size if self.is_whole else size // self._count
