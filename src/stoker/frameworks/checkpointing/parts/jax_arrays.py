"""Trees of JAX arrays, by orbax: what is spread over processes is written by all of them, the rest by the chief.

Arrays that each process of several has for itself (no global arrays) may differ, so each process keeps its own.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Dict, List

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.messages import Refused

from .part import Write, another_program

FOLDER = "jax"


class JaxParts:
    """Values of a program that are, or hold, arrays of JAX."""

    def __init__(self, jax: Any, values: Dict[str, Any], names: List[str], rank: int, count: int) -> None:
        """`names`: those of the values that this is for. `rank`, `count`: of the processes that train together."""
        try:
            orbax: Any = import_module("orbax.checkpoint")
        except ImportError:
            raise Refused(
                "arrays of JAX are saved by orbax, and it is not installed",
                "add orbax-checkpoint to the program's requirements (pip install orbax-checkpoint)",
            ) from None
        self._jax = jax
        self._numpy: Any = import_module("numpy")
        self._values = values
        self.kinds = dict.fromkeys(names, "arrays of JAX")
        self._rank = rank
        self._is_shared = count > 1
        self._checkpointer = orbax.StandardCheckpointer()

    def stage(self, draft: str) -> Write:
        """Orbax takes a copy before it returns: the next step may reuse the arrays."""
        own = {name: self._plain(leaf) for name, leaf in self._leaves() if self._is_local(leaf)}
        self._checkpointer.save(os.path.join(draft, FOLDER), self._tree(own))

        def write() -> None:
            if own:
                self._numpy.savez(os.path.join(draft, _own_file(self._rank)), **own)
            self._checkpointer.wait_until_finished()

        return write

    def restore(self, found: Checkpoint) -> None:
        """Arrays come to where the program has made them, also where that are other devices than before."""
        own: Dict[str, Any] = {}
        path = found.path(_own_file(self._rank))
        path = path if os.path.exists(path) else found.path(_own_file(0))
        if os.path.exists(path):
            with self._numpy.load(path) as arrays:
                own = dict(arrays)
        try:
            restored = self._checkpointer.restore(found.path(FOLDER), self._tree(own))
        except (ValueError, KeyError, TypeError) as error:
            raise another_program(found, " ".join(str(error).split())) from None
        told = iter(self._jax.tree_util.tree_leaves(restored))  # those that are each one's own are none
        values = {name: self._values[name] for name in self.kinds}
        leaves = [self._back(leaf, own[name] if name in own else next(told)) for name, leaf in self._leaves()]
        self._values.update(self._jax.tree_util.tree_unflatten(self._jax.tree_util.tree_structure(values), leaves))

    def _leaves(self) -> "List[tuple[str, Any]]":
        """By their paths."""
        values = {name: self._values[name] for name in self.kinds}
        leaves, _ = self._jax.tree_util.tree_flatten_with_path(values)
        return [(self._jax.tree_util.keystr(path), leaf) for path, leaf in leaves]

    def _tree(self, own: Dict[str, Any]) -> Any:
        """What orbax has: all but what each process has for itself. What each had and all have now comes from the chief."""

        def shown(path: Any, leaf: Any) -> Any:
            if self._jax.tree_util.keystr(path) in own:
                return None
            return self._plain(leaf) if self._is_local(leaf) else leaf

        return self._jax.tree_util.tree_map_with_path(shown, {name: self._values[name] for name in self.kinds})

    def _back(self, leaf: Any, array: Any) -> Any:
        """An array where the program has it."""
        if not isinstance(leaf, self._jax.Array) or isinstance(array, self._jax.Array):
            return array
        found = self._jax.random.wrap_key_data(array) if self._is_key(leaf) else array
        return self._jax.device_put(found, leaf.sharding)

    def _is_local(self, leaf: Any) -> bool:
        return self._is_shared and isinstance(leaf, self._jax.Array) and bool(leaf.is_fully_addressable)

    def _is_key(self, leaf: Any) -> bool:
        return bool(self._jax.dtypes.issubdtype(leaf.dtype, self._jax.dtypes.prng_key))

    def _plain(self, leaf: Any) -> Any:
        return self._numpy.asarray(self._jax.random.key_data(leaf) if self._is_key(leaf) else leaf)


def _own_file(rank: int) -> str:
    return f"jax-{rank}.npz"


def holds_arrays(jax: Any, value: Any) -> bool:
    """Whether a value is, or holds, an array of JAX."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(value))
