"""What is used of PyTorch's parameters, optimizers, modules and loaders."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Protocol


class Parameter(Protocol):
    """A tensor that an optimizer steps."""

    data: Any
    device: Any
    dtype: Any
    grad: Any  # a tensor, or None
    is_leaf: bool
    requires_grad: bool
    shape: Any

    def detach(self) -> Any:
        """The same numbers, of which no gradient is known."""

    def numel(self) -> int:
        """How many numbers it has."""

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Have it called whenever a gradient has been added to its own."""


class Optimizer(Protocol):
    """What steps parameters."""

    param_groups: List[Dict[str, Any]]


class Module(Protocol):
    """A model, or a part of one."""

    training: bool

    def parameters(self) -> Iterator[Any]:
        """What is trained."""

    def buffers(self) -> Iterator[Any]:
        """What is kept besides, such as BatchNorm's statistics."""


class Loader(Protocol):
    """A DataLoader."""

    batch_size: Any
    dataset: Any
    sampler: Any
    batch_sampler: Any
