"""Models and optimizers of PyTorch, by torch.distributed.checkpoint: what is sharded by all processes, the rest by the chief.

Parameters are known by their names in the models, whatever wraps those (DistributedDataParallel, FSDP, torch.compile), so that
a checkpoint may be read by another number of processes. Sources: torch.distributed.checkpoint, .state_dict.
"""

from __future__ import annotations

import inspect
import os
import warnings
import zlib
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Collection, Dict, Iterator, List, Tuple

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.messages import NotNow, Refused
from stoker.frameworks.processes.seeding import aside

from .part import Write, another_program, names_of, packed, unpacked

FOLDER = "torch"
_GROUPS = "torch-groups"  # of optimizers that have no state
_MOST_WAIT = timedelta(minutes=10)


class TorchParts:
    """The models of a program, and the optimizers that step their parameters."""

    def __init__(self, torch: Any, models: Dict[str, Any], optimizers: Dict[str, Any], rank: int, count: int) -> None:
        """By the names that the program gives them. `rank`, `count`: of the processes that train together."""
        self._torch = torch
        self._checkpoint: Any = import_module("torch.distributed.checkpoint")
        self._states: Any = import_module("torch.distributed.checkpoint.state_dict")
        if "no_dist" not in inspect.signature(self._checkpoint.save).parameters:
            raise Refused(f"PyTorch {torch.__version__} cannot save one process of several", "use PyTorch 2.7 or newer")
        self._models = torch.nn.ModuleDict(models)
        self._optimizers = optimizers
        self.kinds = {
            **dict.fromkeys(models, "a model of PyTorch"),
            **{name: f"an optimizer of PyTorch, {type(its).__name__}" for name, its in optimizers.items()},
        }
        self._rank = rank
        self._is_sharded = count > 1 and is_sharded(models.values())
        # Their own group: what is sent while a checkpoint is written is not to meet what training sends.
        self._group = (
            import_module("torch.distributed").new_group(backend="gloo", timeout=_MOST_WAIT)
            if self._is_sharded
            else None
        )

    def stage(self, draft: str) -> Write:
        """A copy on the processors."""
        if self._rank and not self._is_sharded:
            return lambda: None
        folder = f"{draft}/{FOLDER}"
        state = self._state({n: o for n, o in self._optimizers.items() if o.state})
        groups = {n: o.state_dict()["param_groups"] for n, o in self._optimizers.items() if not o.state}

        def write_groups() -> None:
            if groups and not self._rank:
                with open(os.path.join(draft, _GROUPS), "wb") as file:
                    file.write(packed(groups))

        if self._is_sharded and _is_of_older_fsdp(self._models):
            with _no_warnings():  # its tensors cannot be copied by async_save
                self._checkpoint.save(state, checkpoint_id=folder, process_group=self._group)
            return write_groups
        if self._is_sharded:
            with _no_warnings():
                told = self._checkpoint.async_save(state, checkpoint_id=folder, process_group=self._group)
            future = getattr(told, "upload_completion", told)

            def wait() -> None:
                future.result()
                write_groups()

            return wait
        copied = _on_processors(state, self._torch.Tensor)

        def write() -> None:
            with _no_warnings():
                self._checkpoint.save(copied, checkpoint_id=folder, no_dist=True)
            write_groups()

        return write

    def restore(self, found: Checkpoint) -> None:
        """Each process reads what it needs."""
        groups: Dict[str, Any] = {}
        if os.path.exists(found.path(_GROUPS)):
            with open(found.path(_GROUPS), "rb") as file:
                groups = unpacked(file.read())
        folder = found.path(FOLDER)
        with aside(), _no_warnings():  # an optimizer that has not stepped makes a step of nothing to have a state
            optimizers = {name: its for name, its in self._optimizers.items() if name not in groups}
            state = self._state(optimizers)
            saved = self._checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
            self._compare(found, state["models"], saved)
            for name, told in state["optimizers"].items():
                told["state"] = _those_of(told["state"], f"optimizers.{name}.state", saved)
            try:
                self._checkpoint.load(state, checkpoint_id=folder, **({} if self._is_sharded else {"no_dist": True}))
            except self._checkpoint.api.CheckpointException as error:  # no Exception of Python's
                raise self._why(found, error) from None
            self._states.set_model_state_dict(self._models, state["models"])
            options = self._states.StateDictOptions(strict=False)  # which parameters have a state was looked at above
            for name, optimizer in optimizers.items():
                told = state["optimizers"][name]
                self._states.set_optimizer_state_dict(self._models, optimizer, optim_state_dict=told, options=options)
        for name, its in groups.items():
            for group, known in zip(self._optimizers[name].param_groups, its):
                group.update({key: value for key, value in known.items() if key != "params"})

    def _why(self, found: Checkpoint, error: Any) -> BaseException:
        """What to raise where processes could not read it. `error`: with (error, traceback) by rank."""
        causes = [cause for cause, _ in error.failures.values()]
        first = next((one for one in causes if isinstance(one, OSError)), causes[0] if causes else error)
        if isinstance(first, OSError):
            return first
        why = next(iter(str(first).splitlines()), type(first).__name__)
        if isinstance(first, (RuntimeError, ValueError, KeyError)) and not isinstance(
            first, self._torch.distributed.DistError
        ):
            return another_program(found, why)
        return NotNow(f"the checkpoint of step {found.step} cannot be read: {why}")

    def _state(self, optimizers: Dict[str, Any]) -> Dict[str, Any]:
        of = {name: self._states.get_optimizer_state_dict(self._models, its) for name, its in optimizers.items()}
        return {"models": self._states.get_model_state_dict(self._models), "optimizers": of}

    def _compare(self, found: Checkpoint, models: Dict[str, Any], saved: Dict[str, Any]) -> None:
        """Raises Refused where the checkpoint does not have the models that the program has, and says what."""
        ours = {name: tuple(its.shape) for name, its in models.items() if isinstance(its, self._torch.Tensor)}
        theirs = {
            name.partition(".")[2]: tuple(known.size)
            for name, known in saved.items()
            if name.startswith("models.") and hasattr(known, "size")
        }
        missing, others = list(ours.keys() - theirs.keys()), list(theirs.keys() - ours.keys())
        if missing:
            raise another_program(found, f"it does not have {names_of(missing)}")
        if others:
            raise another_program(found, f"it has {names_of(others)}, which the program does not")
        for name, shape in ours.items():
            if theirs[name] != shape:
                raise another_program(found, f"its {name} is {theirs[name]}, the program's {shape}")


def digest_of(models: Dict[str, Any]) -> int:
    """A digest, the same for models whose tensors have the same names and shapes."""
    known = [(n, name, _shape(its)) for n, model in models.items() for name, its in model.state_dict().items()]
    return zlib.crc32(repr(sorted(known)).encode())


def _shape(value: Any) -> Tuple[int, ...]:
    try:
        return tuple(value.shape)
    except (AttributeError, RuntimeError):  # no tensor, or one that is not there yet
        return ()


def _those_of(state: Dict[str, Any], path: str, saved: Dict[str, Any]) -> Dict[str, Any]:
    """Of an optimizer's state what was saved: a parameter that had no gradient yet has none."""
    found = {
        parameter: {key: value for key, value in its.items() if f"{path}.{parameter}.{key}" in saved}
        for parameter, its in state.items()
    }
    return {parameter: its for parameter, its in found.items() if its}


def steps_parameters_of(optimizer: Any, models: List[Any]) -> bool:
    """Whether all that an optimizer steps are parameters of these models, and it can be asked to make a state for them."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        return False
    known = {id(parameter) for model in models for parameter in model.parameters()}
    return all(id(parameter) in known for group in optimizer.param_groups for parameter in group["params"])


def is_sharded(models: Collection[Any]) -> bool:
    """Whether a process has only a piece of them: DTensors, or what the older FSDP has flattened."""
    tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    return any(map(_is_of_older_fsdp, models)) or any(hasattr(tensor, "device_mesh") for tensor in tensors)


def _is_of_older_fsdp(models: Any) -> bool:
    return any(type(module).__name__ == "FullyShardedDataParallel" for module in models.modules())


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
