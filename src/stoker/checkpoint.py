"""Checkpoints for training loops of a program's own: saved in time, and gone on from at the same batch.

    from stoker import checkpoint

    state = checkpoint.State(model=model, optimizer=optimizer, best=0.0)
    for epoch in state.epochs(10):
        for images, labels in state.batches(loader):
            train(images, labels)
        state.best = max(state.best, evaluate(model))

The same in PyTorch, JAX, TensorFlow and Keras. Within a job with a directory it is saved there, as often as what a save
costs makes best (`--checkpoints 10m`: that often), and when it is told to stop. Started again, the loops go on where they
were: everything is as it was, and the data are entered in the middle. Elsewhere the loops just run, unless
`STOKER_CHECKPOINT_DIR` names a folder.
docs/checkpoints.md tells what is exact and what is not.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, Optional, TypeVar

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.checkpointing.loops import Loops
from stoker.frameworks.checkpointing.remote import checkpoints_at
from stoker.frameworks.checkpointing.state import is_filled
from stoker.frameworks.processes.cluster import cluster_of

__all__ = ["Checkpoint", "State", "latest"]

Item = TypeVar("Item")

_FOLDER = "state"
_numbers = itertools.count(1)  # of the states of this program, each of which has a folder


class State:
    """What changes while a program trains. Each part is an attribute, to be read and set."""

    def __init__(self, **parts: Any) -> None:
        """By names of the program's own choice.

        A part is a model, an optimizer, or whatever else has `state_dict` and `load_state_dict`, or `variables`, and is filled;
        or a value: a list, a dict or a numpy array is filled, too; a number or a tree of JAX arrays is replaced, so read it from
        the state. A program may have several States, if it always makes them in the same order. Raises ValueError for a name
        that is taken.
        """
        for name in parts:
            if name.startswith("_") or name in _NAMES:
                raise ValueError(f"{name!r} cannot be the name of a part: State has that name itself")
        folder, number = _folder(), next(_numbers)
        self.__dict__["_parts"] = parts
        self.__dict__["_loops"] = Loops(parts, f"{folder}-{number}" if folder and number > 1 else folder, os.environ)

    def __getattr__(self, name: str) -> Any:
        parts = self.__dict__.get("_parts", {})
        if name in parts:
            return parts[name]
        raise AttributeError(f"State has no part {name!r}: it has {', '.join(parts) or 'none'}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._parts:
            raise AttributeError(f"State has no part {name!r}: name it when State is made")
        if value is not self._parts[name] and is_filled(self._parts[name]):
            raise AttributeError(f"{name!r} is filled, not replaced: make another State for another one")
        self._parts[name] = value

    @property
    def step(self) -> int:
        """How many batches, or steps, are behind it, of all attempts together."""
        return int(self._loops.step)

    def restore(self) -> bool:
        """Fill the parts from the newest whole checkpoint now, not when the first loop begins. Returns whether there is one."""
        return bool(self._loops.begin())

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are left, from 0 to count."""
        yield from self._loops.epochs(count)

    def batches(self, data: Iterable[Item]) -> Iterator[Item]:
        """What is left of the data in this epoch. A step is over when the next batch is asked for.

        Of a PyTorch DataLoader, a list or a tf.data.Dataset what was trained on is left out; other data are read and passed over.
        """
        yield from self._loops.batches(data)

    def steps(self, count: int) -> Iterator[int]:
        """The numbers of the steps that are left, from 0 to count, for programs that know no epochs."""
        yield from self._loops.steps(count)

    def save(self) -> None:
        """Save, and wait until it is on the disk: now, or within a loop at the end of this step.

        Several processes do so when they agree the next time, about a second later at the most.
        """
        self._loops.save()


_NAMES = frozenset(name for name in vars(State) if not name.startswith("_"))


def latest() -> Optional[Checkpoint]:
    """The newest whole checkpoint of this job that a `State` has written; None: there is none, or the job has no directory."""
    folder = _folder()
    return checkpoints_at(folder).latest() if folder else None


def _folder() -> str:
    """Where this process's training is saved; empty: nowhere."""
    variables = dict(os.environ)
    folder = variables.get("STOKER_CHECKPOINT_DIR", "")
    if not folder or cluster_of(variables).rank < 0:
        return ""
    return os.path.join(folder, _FOLDER)
