"""Models and optimizers of PyTorch, by torch.distributed.checkpoint: what is sharded by all processes, the rest by the chief.

Parameters are known by their names in the models, whatever wraps those (DistributedDataParallel, FSDP, torch.compile), so that
a checkpoint may be read by another number of processes. Sources: torch.distributed.checkpoint, .state_dict.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Dict, Iterator, List, Tuple

from . import together
from .checkpoints import Checkpoint
from .parts import Write, another_program, names_of

FOLDER = "torch"
_MOST_WAIT = timedelta(minutes=10)


class TorchParts:
    """The models of a program, and the optimizers that step their parameters."""

    name = "a model or an optimizer of PyTorch"

    def __init__(self, torch: Any, models: Dict[str, Any], optimizers: Dict[str, Any], rank: int, count: int) -> None:
        """By the names that the program gives them. `rank`, `count`: of the processes that train together."""
        self._torch = torch
        self._checkpoint: Any = import_module("torch.distributed.checkpoint")
        self._states: Any = import_module("torch.distributed.checkpoint.state_dict")
        self._models = torch.nn.ModuleDict(models)
        self._optimizers = optimizers
        self.names = [*models, *optimizers]
        self._rank = rank
        self._is_sharded = count > 1 and any(map(_is_shard, [*self._models.parameters(), *self._models.buffers()]))
        # Their own group: what is sent while a checkpoint is written is not to meet what training sends.
        self._group = (
            import_module("torch.distributed").new_group(backend="gloo", timeout=_MOST_WAIT)
            if self._is_sharded
            else None
        )

    def stage(self, draft: str) -> Write:
        """A copy on the processors."""
        folder = f"{draft}/{FOLDER}"
        if self._is_sharded:
            with _no_warnings():
                told = self._checkpoint.async_save(self._state(), checkpoint_id=folder, process_group=self._group)
            future = getattr(told, "upload_completion", told)

            def wait() -> None:
                future.result()

            return wait
        if self._rank:
            return lambda: None
        copied = _on_processors(self._state(), self._torch.Tensor)

        def write() -> None:
            with _no_warnings():
                self._checkpoint.save(copied, checkpoint_id=folder, no_dist=True)

        return write

    def restore(self, found: Checkpoint) -> None:
        """Each process reads what it needs."""
        with (
            together.aside(),
            _no_warnings(),
        ):  # an optimizer that has not stepped makes a step of nothing to have a state
            state = self._state()
            folder = found.path(FOLDER)
            self._compare(found, state, self._checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata)
            self._checkpoint.load(state, checkpoint_id=folder, **({} if self._is_sharded else {"no_dist": True}))
            self._states.set_model_state_dict(self._models, state["models"])
            for name, optimizer in self._optimizers.items():
                self._states.set_optimizer_state_dict(
                    self._models, optimizer, optim_state_dict=state["optimizers"][name]
                )

    def _state(self) -> Dict[str, Any]:
        of = {
            name: self._states.get_optimizer_state_dict(self._models, optimizer)
            for name, optimizer in self._optimizers.items()
        }
        return {"models": self._states.get_model_state_dict(self._models), "optimizers": of}

    def _compare(self, found: Checkpoint, state: Dict[str, Any], saved: Dict[str, Any]) -> None:
        """Raises Refused where the checkpoint does not have what the program has, and says what."""
        ours = {_short(name): tensor for name, tensor in self._tensors(state, "")}
        theirs = {_short(name): tuple(known.size) for name, known in saved.items() if hasattr(known, "size")}
        missing, others = list(ours.keys() - theirs.keys()), list(theirs.keys() - ours.keys())
        if missing:
            raise another_program(found, f"it does not have {names_of(missing)}")
        if others:
            raise another_program(found, f"it has {names_of(others)}, which the program does not")
        for name, tensor in ours.items():
            if theirs[name] != tuple(tensor.shape):
                raise another_program(found, f"its {name} is {theirs[name]}, the program's {tuple(tensor.shape)}")

    def _tensors(self, state: Any, name: str) -> Iterator[Tuple[str, Any]]:
        """By the names that torch.distributed.checkpoint has for them."""
        if isinstance(state, dict):
            for key, value in state.items():
                yield from self._tensors(value, f"{name}.{key}" if name else str(key))
        elif isinstance(state, self._torch.Tensor):
            yield name, state


def steps_parameters_of(optimizer: Any, models: List[Any]) -> bool:
    """Whether all that an optimizer steps are parameters of these models."""
    known = {id(parameter) for model in models for parameter in model.parameters()}
    return all(id(parameter) in known for group in optimizer.param_groups for parameter in group["params"])


def _short(name: str) -> str:
    """Without `models.` or `optimizers.`: as the program may know it."""
    return name.partition(".")[2]


def _is_shard(tensor: Any) -> bool:
    """Whether a process has only a piece of it: a DTensor, or what FSDP has flattened."""
    return (
        hasattr(tensor, "device_mesh") or hasattr(tensor, "_sharding_spec") or type(tensor).__name__ == "FlatParameter"
    )


def _on_processors(what: Any, kind: Any) -> Any:
    if isinstance(what, dict):
        return {name: _on_processors(value, kind) for name, value in what.items()}
    if isinstance(what, (list, tuple)):
        return type(what)([_on_processors(value, kind) for value in what])
    return what.detach().to("cpu", copy=True) if isinstance(what, kind) else what


@contextmanager
def _no_warnings() -> Iterator[None]:
    """PyTorch warns of what is meant here, such as that one process saves alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
