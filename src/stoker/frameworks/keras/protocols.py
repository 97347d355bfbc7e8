"""What is used of Keras' models, optimizers and variables, in all of its versions and backends."""

from __future__ import annotations

from typing import Any, Callable, List, Protocol, Tuple


class Variable(Protocol):
    """A weight, a slot of an optimizer, or a counter."""

    path: str
    shape: Tuple[int, ...]
    value: Any

    def assign(self, value: Any) -> Any:
        """Give it another value, of the same shape."""

    def numpy(self) -> Any:
        """Its value as an array."""


class Optimizer(Protocol):
    """What steps a model's variables."""

    learning_rate: Any
    iterations: Any
    variables: Any  # a list, or in tf_keras a method that gives one
    apply_gradients: Callable[..., Any]

    def build(self, variables: List[Any]) -> None:
        """Make its slots."""


class Model(Protocol):
    """What `fit` trains."""

    built: bool
    metrics: List[Any]
    optimizer: Any  # an Optimizer; None before `compile`
    distribute_strategy: Any
    trainable_variables: List[Any]
    non_trainable_variables: List[Any]
    variables: List[Any]
    stop_training: bool
    call: Callable[..., Any]
    train_step: Callable[..., Any]
    compute_loss: Callable[..., Any]
    compute_metrics: Callable[..., Any]
    predict_function: Any  # None until it is made
    _distribute_strategy: Any
    _maybe_load_initial_counters_from_ckpt: Callable[..., Any]  # tf_keras

    def __call__(self, *args: Any, **words: Any) -> Any:
        """Its outputs."""

    def build(self, input_shape: Any) -> None:
        """Make its variables."""

    def reset_metrics(self) -> None:
        """Begin them anew."""

    def jax_state_sync(self) -> None:
        """On JAX: bring its variables up to date."""

    def _symbolic_build(self, *args: Any, **words: Any) -> None: ...

    def _flatten_layers(self, *args: Any, **words: Any) -> Any: ...
