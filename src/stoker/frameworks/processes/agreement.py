"""What the processes of one training agree on, at the end of a step that all of them have done."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, List, Sequence


class Alone:
    """One process, which agrees with itself."""

    rank, count = 0, 1

    def most(self, numbers: Sequence[float]) -> List[float]:
        """Of each of these numbers the largest that any process has. All have to call it, after the same step."""
        return list(numbers)


class TorchAgreement(Alone):
    """Processes of a torch.distributed process group, over a group of their own on the processors."""

    def __init__(self, together: Any) -> None:
        self._torch = sys.modules["torch"]
        self._together = together
        self._group = together.new_group(backend="gloo")
        self.rank, self.count = int(together.get_rank()), int(together.get_world_size())

    def most(self, numbers: Sequence[float]) -> List[float]:
        """By an all-reduce."""
        found = self._torch.tensor(list(numbers), dtype=self._torch.float64)
        self._together.all_reduce(found, op=self._together.ReduceOp.MAX, group=self._group)
        return [float(number) for number in found]


class JaxAgreement(Alone):
    """Processes of jax.distributed."""

    def __init__(self, jax: Any) -> None:
        self._numpy: Any = import_module("numpy")
        self._utils: Any = import_module("jax.experimental.multihost_utils")
        self.rank, self.count = int(jax.process_index()), int(jax.process_count())

    def most(self, numbers: Sequence[float]) -> List[float]:
        """By gathering them. As words of 32 bits, which JAX leaves as they are."""
        words = self._numpy.asarray(list(numbers), self._numpy.float64).view(self._numpy.int32)
        all_of_them = self._numpy.asarray(self._utils.process_allgather(words)).reshape(self.count, -1)
        return [float(n) for n in all_of_them.view(self._numpy.float64).max(axis=0)]


def agreement(jax: Any = None) -> Alone:
    """Among those that train together with this process, as far as it has met them. `jax`: what it trains with, if it is that."""
    if jax is not None:
        return JaxAgreement(jax) if jax.process_count() > 1 else Alone()
    together = torch_group()
    return TorchAgreement(together) if together is not None else Alone()


def torch_group() -> Any:
    """torch.distributed, if this process has met others by it; else None."""
    together: Any = sys.modules.get("torch.distributed")
    if together is None or not together.is_available() or not together.is_initialized():
        return None
    return together if together.get_world_size() > 1 else None
