"""What processes of one training have in common, and what is each one's own."""

from __future__ import annotations

import random
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Iterator

from .cluster import Cluster

numpy: Any = import_module("numpy") if find_spec("numpy") else None  # PyTorch can do without


def begin_alike(cluster: Cluster, torch: Any = None) -> None:
    """Seed all processes alike, so that what a program draws (a split of its data, first weights) is the same in all."""
    seed = cluster.seed % (1 << 32)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


_aside = 0


@contextmanager
def aside() -> Iterator[None]:
    """What is done within it is Stoker's own, and no step of training."""
    global _aside
    _aside += 1
    try:
        yield
    finally:
        _aside -= 1


def is_aside() -> bool:
    """Whether what happens now is Stoker's own."""
    return _aside > 0
