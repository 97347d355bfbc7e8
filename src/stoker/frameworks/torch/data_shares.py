"""Each process's part of what a DataLoader reads: while training its share, while evaluating all of it.

A loop evaluates when gradients are off, or the model that its optimizer steps was last told to evaluate; before there is an
optimizer, it looks at its data.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Set

from stoker.frameworks.checkpointing.rng import draw_alike, drawing_alike
from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.replaced import TORCH_DATA, replace
from stoker.frameworks.torch.protocols import Loader, Module

from .dataset_size import watch_size

_data: Any = import_module("torch.utils.data")  # the program has imported torch


class Model(Protocol):
    """What is known of what the program trains."""

    def can_train(self) -> bool: ...  # there is an optimizer

    def has_all(self, module: Module) -> bool: ...  # that some optimizer steps

    def has_some(self, module: Module) -> bool: ...


class Share:
    """The share of this process."""

    def __init__(self, torch: Any, cluster: Cluster, model: "Model", agree: Callable[[str, str], str]) -> None:
        """`model`: what is known of what is trained. `agree`: tells what the first process has said under a name, if it has."""
        self._torch = torch
        self._cluster = cluster
        self._model = model
        self._agree = agree
        self._seed: Optional[int] = None  # of orders
        self._trains = True
        self._depth = 0  # of calls of Module.train within one another
        self._loaders = 0
        self.trained_on: Set[int] = set()  # loaders, by their numbers
        self._data_trained_on: Set[int] = set()  # by their ids: some programs make a loader for each epoch
        self.was_read = False
        self.was_looked_at = False  # before there was an optimizer
        self.last_was_whole = False
        self._last_data = 0
        self.batch_size = 0
        self.at_evaluation: Callable[[Any], None] = lambda module: None

    def put_in_place(self) -> None:
        """Give every DataLoader that is made from now on a sampler of ours."""
        replace(
            TORCH_DATA,
            {
                "torch.utils.data:DataLoader.__init__": self._begins_shared,
                "torch.utils.data:DataLoader.__iter__": self._reads_shared,
                "torch.nn:Module.train": self._notes_training,
            },
        )

    def _begins_shared(self, begin: Any) -> Any:
        signature = inspect.signature(begin)

        @functools.wraps(begin)
        def begin_shared(loader: Loader, *args: Any, **words: Any) -> None:
            bound = signature.bind(loader, *args, **words)
            self._replace(bound.arguments)
            begin(*bound.args, **bound.kwargs)

        return begin_shared

    def _reads_shared(self, read: Any) -> Any:
        share = self

        @functools.wraps(read)
        def read_shared(loader: Loader) -> Any:
            if isinstance(loader.dataset, Stream):
                dataset = loader.dataset
                is_whole = dataset.begin(share.evaluates(), lambda: share.seed)
                share.note(is_whole, loader.batch_size or 0, dataset.loader, id(dataset.dataset))
            return read(loader)

        return read_shared

    def _notes_training(self, train: Any) -> Any:
        share = self

        @functools.wraps(train)
        def train_noted(module: Module, mode: bool = True) -> Any:
            share._depth += 1
            try:
                return train(module, mode)
            finally:
                share._depth -= 1
                if not share._depth:
                    if share._model.has_all(module) if not mode else share._model.has_some(module):
                        share._trains = mode  # the frozen part of a model may be told to evaluate, and the rest trains
                    if not mode:
                        share.at_evaluation(module)

        return train_noted

    def evaluates(self) -> bool:
        """Whether the program does not train now, as far as can be seen."""
        return not (self._trains and self.has_gradients() and self._model.can_train())

    def trains_anew(self) -> None:
        """There is another optimizer: what it steps is trained, whatever was evaluated before."""
        self._trains = True

    def can_train(self) -> bool:
        """Whether there is an optimizer."""
        return self._model.can_train()

    def has_gradients(self) -> bool:
        """Whether what is computed now could be trained by."""
        return bool(self._torch.is_grad_enabled())

    def trains_on_all(self) -> bool:
        """Whether what is trained on now was read by everybody: data of training, by a model that is told to evaluate."""
        is_of_training = self._last_data in self._data_trained_on or not self.was_read
        return self.last_was_whole and is_of_training and self.evaluates()

    def note(self, is_whole: bool, batch_size: int, loader: int, data: int) -> None:
        """Note that data are read now, by everybody all of them or a share. `data`: their id."""
        self.last_was_whole, self._last_data = is_whole, data
        self.was_looked_at |= is_whole and not self._model.can_train()
        if not is_whole:
            self.was_read, self.batch_size = True, batch_size
            self.trained_on.add(loader)
            self._data_trained_on.add(data)

    @property
    def processes(self) -> int:
        """How many share the data."""
        return self._cluster.processes

    def part(self, indices: List[Any]) -> List[Any]:
        """This process's of all. Some at the beginning are read twice, so that all have as many."""
        count = self._cluster.processes
        while indices and len(indices) % count:
            indices = indices + indices[: count - len(indices) % count]
        return indices[self._cluster.rank :: count]

    def part_size(self, size: int) -> int:
        """How many those are."""
        return -(-size // self._cluster.processes)

    def drawn(self, sampler: Any, seed: int) -> List[Any]:
        """All that a sampler gives, in the order that it has in all processes: by torch's, Python's or numpy's chance."""
        with drawing_alike(seed % (1 << 32)):
            return list(sampler)

    @property
    def seed(self) -> int:
        """What orders are drawn from: the program's, as its first process has set it, or else the job's."""
        if self._seed is None:
            own = self._torch.initial_seed()  # the job's, where the program sets none
            self._seed = int(self._agree("seed", str(own)))
        return self._seed

    def check_alike(self, sampler: Any, loader: int, drawn: List[Any]) -> None:
        """Raises Refused where a loader has other examples here than in the first process, such as those of another split."""
        mine = _sum_of(drawn)
        dataset, seen = getattr(sampler, "data_source", None), set[int]()
        while isinstance(dataset, _data.Dataset) and id(dataset) not in seen:
            seen.add(id(dataset))
            mine = zlib.crc32(str(_size_of(dataset)).encode(), mine)
            if isinstance(dataset, _data.Subset):
                mine = zlib.crc32(str(_sum_of(dataset.indices)).encode(), mine)
            dataset = getattr(dataset, "dataset", None)
        if self._agree(f"data-{loader}", str(mine)) != str(mine):
            raise Refused(
                "its data are others than those of the first process: it splits or weighs them by chance that has no seed of its "
                "own, such as numpy.random.default_rng() or random.Random()",
                "give that a seed, so that all processes draw the same",
            )

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
                asked["batch_sampler"] = Part(self, asked["batch_sampler"], self._loaders, size, dataset)
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
        asked["sampler"] = Part(self, sampler, self._loaders, asked.get("batch_size", 1) or 0, dataset)


class Part:
    """A sampler that gives this process's part of what another gives."""

    def __init__(self, share: Share, sampler: Any, loader: int, batch_size: int, dataset: Any) -> None:
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
        self._dataset = dataset
        self._epoch = 0
        self._seed: Optional[int] = None  # before the first order: not known yet
        self._is_checked = False
        self._was_whole: "bool | None" = None  # when it was last read; None: it was not
        self._was_looked_at = False  # then: there was no optimizer yet

    def __iter__(self) -> Iterator[Any]:
        self._was_whole, self._was_looked_at = self._share.evaluates(), not self._share.can_train()
        self._share.note(self._was_whole, self._batch_size, self._loader, id(self._dataset))
        if self._was_whole:
            return iter(self.whole)
        self._epoch += 1
        watch_size(self._dataset, self._share.processes)
        if self._seed is None:
            self._seed = self._share.seed
        drawn = self._share.drawn(self.whole, self._seed + 1_000_003 * self._loader + self._epoch)
        if not self._is_checked:
            self._is_checked = True
            self._share.check_alike(self.whole, self._loader, drawn)
        return iter(self._share.part(drawn))

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
        return {"epoch": self._epoch, "seed": self._seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next order is the one after that."""
        self._epoch, self._seed = state["epoch"], state.get("seed")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)


def _sum_of(indices: Any) -> int:
    """A sum that is the same for the same indices, whatever holds them. What is neither number nor text is not told apart."""
    numpy: Any = import_module("numpy") if find_spec("numpy") else None
    if numpy is not None:
        try:
            return zlib.crc32(numpy.asarray(indices, dtype="int64").tobytes())
        except (TypeError, ValueError, OverflowError):
            pass
    return zlib.crc32(repr([one if isinstance(one, (str, int, tuple)) else "" for one in indices]).encode())


def _size_of(dataset: Any) -> int:
    try:
        return len(dataset)
    except Exception:  # whatever a dataset of a stream says
        return -1


def _is_shared(sampler: Any) -> bool:
    """Whether somebody else takes a part of what a loader of ours has a part of: accelerate does so."""
    inner = getattr(sampler, "batch_sampler", None)
    return isinstance(inner, Part) or isinstance(getattr(inner, "sampler", None), Part)


class PassNumber:
    """How many times a stream was trained on: its chance depends on it."""

    def __init__(self) -> None:
        self.value = 0
        self.seed: Optional[int] = None  # before the first of them: not drawn yet

    def state_dict(self) -> Dict[str, Any]:
        """The number, and what chance began with."""
        return {"value": self.value, "seed": self.seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next pass is the one after that."""
        self.value, self.seed = state["value"], state.get("seed")


class Stream(_data.IterableDataset):  # type: ignore[misc]
    """A dataset that is read from its beginning: of each so many examples in a row one for each process; the rest is nobody's."""

    def __init__(self, dataset: Any, cluster: Cluster, loader: int) -> None:
        super().__init__()
        self.dataset = dataset
        self.pass_number = PassNumber()
        torch: Any = import_module("torch")
        self._told = torch.zeros(3, dtype=torch.int64).share_memory_()  # also to workers that stay
        self.loader = loader
        self._rank, self._count = cluster.rank, cluster.processes

    def begin(self, is_whole: bool, seed: Callable[[], int]) -> bool:
        """A loader is about to read it. `seed`: what chance begins with. Returns whether each process reads all of it."""
        if not is_whole:
            self.pass_number.value += 1
            if self.pass_number.seed is None:
                self.pass_number.seed = seed()
            self._told[2] = (self.pass_number.seed + 1_000_003 * self.loader) % (1 << 62)
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
        seed = (int(self._told[2]) + 7_368_787 * int(self._told[1])) % (1 << 62)
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
