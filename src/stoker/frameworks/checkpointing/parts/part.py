"""What changes while a program trains, as it is saved and put back: by kinds, each in the format of its framework."""

from __future__ import annotations

import io
import os
import pickle
import sys
from importlib import import_module
from typing import Any, Callable, Dict, List, Protocol

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.messages import Refused, say

Write = Callable[[], None]


class Part(Protocol):
    """Some of what is saved."""

    @property
    def kinds(self) -> Dict[str, str]: ...  # what each part of the program is, by its name, as it is said to people

    def stage(self, draft: str) -> Write: ...  # take a copy, so that training may go on; what is returned writes it

    def restore(self, found: Checkpoint) -> None: ...  # Raises Refused: it is of another program


class Objects:
    """What has `state_dict` and `load_state_dict` and is small, such as schedules, and plain values: a file of each process."""

    def __init__(self, values: Dict[str, Any], names: List[str], rank: int) -> None:
        """`names`: those of the values that this is for. Plain ones are replaced when they are restored."""
        self._values = values
        self.kinds = dict.fromkeys(names, "a value")
        self._rank = rank
        self.extra: Dict[str, Any] = {}
        """What belongs to this process beside them, such as where its chance stands."""

    def stage(self, draft: str) -> Write:
        """All of it is copied at once."""
        text = packed({"values": {name: _state_of(self._values[name]) for name in self.kinds}, "extra": self.extra})
        path = os.path.join(draft, file_of(self._rank))

        def write() -> None:
            with open(path, "wb") as file:
                file.write(text)

        return write

    def restore(self, found: Checkpoint) -> None:
        """Where there were fewer processes, the others get what the chief had, and `extra` says so."""
        path = found.path(file_of(self._rank))
        is_own = os.path.exists(path)
        with open(path if is_own else found.path(file_of(0)), "rb") as file:
            told = unpacked(file.read())
        self.extra = {**told["extra"], "is_own": is_own}
        for name, state in told["values"].items():
            self._values[name] = _put_back(name, self._values[name], state)


def file_of(rank: int) -> str:
    """Where a process keeps what is its own."""
    return f"process-{rank}"


def another_program(found: Checkpoint, why: str) -> Refused:
    """The checkpoint is not of this program."""
    return Refused(
        f"the checkpoint of step {found.step} is of another model: {why}",
        f"give another --job-dir, or delete {found.place}",
    )


def has_state(value: Any) -> bool:
    """Whether it says its state, and takes it back."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _state_of(value: Any) -> Any:
    return value.state_dict() if has_state(value) else value


def _put_back(name: str, value: Any, state: Any) -> Any:
    """The value as it was. What can be filled is filled where it is: the program, or an optimizer, may hold it."""
    if has_state(value):
        value.load_state_dict(state)
        return value
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    if type(value) is not type(state):
        return state
    if isinstance(value, list):
        value[:] = state
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(state)
    elif torch is not None and isinstance(value, torch.Tensor) and value.shape == state.shape:
        with torch.no_grad():
            value.copy_(state)
    elif numpy is not None and isinstance(value, numpy.ndarray) and value.shape == state.shape:
        value[...] = state
    elif numpy is not None and isinstance(value, numpy.random.Generator):
        value.bit_generator.state = state.bit_generator.state
    else:
        if hasattr(value, "__dict__"):
            say(f"{name}, a {type(value).__name__}, is as it was in the state alone: use it as state.{name}")
        return state
    return value


def as_bytes(value: Any) -> bytes:
    """Bytes that are the same for what is the same, in one process. Raises what pickle raises, for what it cannot take."""
    return pickle.dumps(value)


def packed(what: Any) -> bytes:
    """Anything, for the job's own directory."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return pickle.dumps(what)
    buffer = io.BytesIO()
    torch.save(what, buffer)
    return buffer.getvalue()


def unpacked(text: bytes) -> Any:
    """Of the job's own directory, which holds its program, too: whoever may write there needs no pickle to be obeyed."""
    if not text.startswith(b"PK"):  # a zip archive is PyTorch's
        return pickle.loads(text)
    torch: Any = import_module("torch")
    return torch.load(io.BytesIO(text), map_location="cpu", weights_only=False)


def names_of(parts: List[str], most: int = 3) -> str:
    """Some of these names, for people."""
    shown = ", ".join(sorted(parts)[:most])
    return f"{shown} and {len(parts) - most} more" if len(parts) > most else shown
