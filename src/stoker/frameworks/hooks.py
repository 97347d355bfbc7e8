"""Acts as soon as the program imports a framework: each adapter is called with the module that has just been executed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Optional, Sequence

ADAPTERS = {
    "tensorflow": "stoker.frameworks.keras_tensorflow:prepare_tensorflow",
    "keras": "stoker.frameworks.keras_tensorflow:prepare_keras",
    "tf_keras": "stoker.frameworks.keras_tensorflow:prepare_tf_keras",
    "torch": "stoker.frameworks.torch_loops:prepare_torch",
    "jax": "stoker.frameworks.jax_processes:prepare_jax",
}
"""Framework → the function of its adapter."""

ASKS = ("STOKER_DISTRIBUTE", "STOKER_PRECISION", "STOKER_CHECKPOINTS")
"""By one of these a program is adapted. runtime/supervise.py has the same."""

PROGRAM = "STOKER_PROGRAM_PID"
"""The process that is adapted. Those that it starts, such as loaders of data, are not."""


def install() -> None:
    """Watch the imports of this process, if it is the program, and anything was asked for."""
    if not any(os.environ.get(name) for name in ASKS):
        return
    if not any(isinstance(finder, Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, Watcher())


class Watcher(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: lets the others find a framework, and has its adapter called once it is executed."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a framework, as the others find it; None for everything else."""
        if name not in ADAPTERS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _call_afterwards(spec.loader, name)
                return spec
        return None


def _call_afterwards(loader: Any, name: str) -> None:
    """Whoever only looks for a framework gets a loader, too: the adapter is called when one is really used."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if module.__name__ != name:  # some loaders are for many modules
            return
        loader.exec_module = execute
        if is_program():
            where, _, function = ADAPTERS[name].partition(":")
            getattr(import_module(where), function)(module)

    loader.exec_module = exec_module


def is_program() -> bool:
    """Whether this process is the one that is adapted: the first that imports a framework."""
    own = str(os.getpid())
    return os.environ.setdefault(PROGRAM, own) == own
