"""What processes of one training have in common, and what is each one's own."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import tempfile
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .cluster import Cluster

numpy: Any = import_module("numpy") if find_spec("numpy") else None  # PyTorch can do without


def begin_alike(cluster: Cluster, torch: Any = None) -> None:
    """The same chance in all processes, so that what a program draws (a split of its data, first weights) is the same in all."""
    seed = cluster.seed % (1 << 32)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


@functools.lru_cache(maxsize=None)
def elsewhere() -> str:
    """A folder of this process alone, which goes with it."""
    folder = tempfile.mkdtemp(prefix="stoker-not-the-chief-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
