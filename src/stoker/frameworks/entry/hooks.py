"""Acts as soon as the program imports a framework: each adapter is called with the module that has just been executed."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

from stoker.frameworks.messages import say

ADAPTERS = {
    "tensorflow": "stoker.frameworks.keras.prepare:prepare_tensorflow",
    "keras": "stoker.frameworks.keras.prepare:prepare_keras",
    "tf_keras": "stoker.frameworks.keras.prepare:prepare_tf_keras",
    "torch": "stoker.frameworks.torch.prepare:prepare_torch",
    "jax": "stoker.frameworks.jax.jax_processes:prepare_jax",
}
"""Framework → the function of its adapter. sitecustomize.py watches for the same."""

MEASURES = {
    "keras": "stoker.frameworks.keras.fit_steps:measure",
    "tf_keras": "stoker.frameworks.keras.fit_steps:measure",
    "torch": "stoker.frameworks.torch.optimizer_steps:measure",
}
"""Framework → the function that has its steps measured, in whichever process trains."""

FIRST = {"torch": "stoker.frameworks.torch.gpu_processes:begin"}
"""Framework → the function that is called before it is executed, with the folder in which the program was started."""

PROGRAM = "STOKER_PROGRAM_PID"
"""The process that is adapted. Those that it starts, such as loaders of data, are not."""


def find(
    watcher: object, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType]
) -> Optional[importlib.machinery.ModuleSpec]:
    """The spec of a framework, as all finders but the watcher find it; its adapter is called once it is executed."""
    for finder in sys.meta_path:
        if finder is watcher or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                _call_afterwards(spec.loader, name, getattr(watcher, "folder", ""))
            return spec
    return None


def _call_afterwards(loader: Any, name: str, folder: str) -> None:
    """Whoever only looks for a framework gets a loader, too: the adapter is called when one is really used."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        if module.__name__ == name and name in FIRST and is_program():
            _function(FIRST[name])(folder)
        execute(module)
        if module.__name__ != name:  # some loaders are for many modules
            return
        loader.exec_module = execute
        if name in MEASURES:
            try:
                _function(MEASURES[name])(module)
            except Exception as error:  # of a version that we do not know: the program trains all the same
                say(f"steps of {name} are not measured: {error!r}")
        if is_program():
            _function(ADAPTERS[name])(module)

    loader.exec_module = exec_module


def _function(path: str) -> Callable[..., None]:
    where, _, name = path.partition(":")
    found: Callable[..., None] = getattr(import_module(where), name)
    return found


def is_program() -> bool:
    """Whether this process is the one that is adapted: the first that imports a framework."""
    own = str(os.getpid())
    return os.environ.setdefault(PROGRAM, own) == own
