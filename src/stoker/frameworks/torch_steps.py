"""Steps of PyTorch programs: each is over when the optimizer has stepped; what a DataLoader lets one wait for is data.

By public hooks where there are some (torch.optim.optimizer.register_optimizer_step_post_hook). Nothing here waits for a device:
a loss is kept as it is, and looked at when a window is told.
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from typing import Any, Callable, Dict, Mapping

from .steps import Meter, meter

_DEEPEST = 4  # of structures in a batch


def measure(torch: Any) -> None:
    """Measure the steps of this process from now on, if somebody would hear of them."""
    found = meter()
    if found is not None:
        Steps(torch, found).put_in_place()


class Steps:
    """Those of one process."""

    def __init__(self, torch: Any, meter: Meter) -> None:
        self._torch = torch
        self._meter = meter
        self._is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", bool)
        self._stepped: set[int] = set()  # optimizers, by id, since the last step of all
        self._is_training = False
        self._batch = 0  # examples that were read last, and not trained on yet
        self._examples = 0
        self._loss: Dict[str, Any] = {}
        self._rates: Dict[str, Any] = {}  # the first group of the optimizer that has stepped

    def put_in_place(self) -> None:
        """Stand where the program will pass."""
        import_module("torch.optim.optimizer").register_optimizer_step_post_hook(self._after_step)
        self._meter.source = self._values
        self._meet_data()
        self._meet_loss()

    def _meet_data(self) -> None:
        loading, steps = import_module("torch.utils.data.dataloader"), self
        iterator = loading._BaseDataLoaderIter
        read_next, begin = iterator.__next__, loading.DataLoader.__iter__
        is_grad_enabled, clock, waited = self._torch.is_grad_enabled, time.perf_counter, self._meter.waited

        @functools.wraps(read_next)
        def read_timed(loader: Any) -> Any:
            if not is_grad_enabled():
                steps._stop()
                return read_next(loader)
            steps._go_on()
            began = clock()
            batch = read_next(loader)
            waited(clock() - began)
            steps._batch = size_of(batch)
            return batch

        @functools.wraps(begin)
        def begin_timed(loader: Any) -> Any:
            """Workers are started, or asked again: that, too, is to wait for data."""
            if not is_grad_enabled():
                steps._stop()
                return begin(loader)
            steps._go_on()
            began = clock()
            found = begin(loader)
            waited(clock() - began)
            return found

        iterator.__next__, loading.DataLoader.__iter__ = read_timed, begin_timed

    def _meet_loss(self) -> None:
        tensor, steps = self._torch.Tensor, self
        backward = tensor.backward

        @functools.wraps(backward)
        def backward_noted(loss: Any, *args: Any, **words: Any) -> Any:
            steps._go_on()
            steps._examples += steps._batch
            steps._batch = 0
            if not steps._loss.pop("is scaled", False) and loss.numel() == 1:
                steps._loss["loss"] = loss.detach()
            return backward(loss, *args, **words)

        tensor.backward = backward_noted
        scaler = getattr(self._torch.amp, "GradScaler", None)  # of PyTorch 2.3 and newer
        if scaler is None:
            return
        scale = scaler.scale

        @functools.wraps(scale)
        def scale_noted(self: Any, outputs: Any) -> Any:
            found = scale(self, outputs)
            if isinstance(outputs, tensor) and outputs.numel() == 1:
                steps._loss.update({"loss": outputs.detach(), "is scaled": True})
            return found

        scaler.scale = scale_noted

    def _go_on(self) -> None:
        if not self._is_training:
            self._is_training = True
            if not self._meter.kept_by:
                self._meter.begin()

    def _stop(self) -> None:
        """It evaluates: until it trains again, no step goes on."""
        self._is_training = False

    def _after_step(self, optimizer: Any, args: Any, words: Any) -> None:
        """With several optimizers, a step is over when one of them steps again."""
        if self._meter.kept_by or self._is_compiling():
            return  # within a compiled step: our counting would be compiled with it, anew at every step
        if self._stepped and id(optimizer) not in self._stepped:
            self._stepped.add(id(optimizer))
            return
        self._stepped = {id(optimizer)}
        self._go_on()
        self._rates = optimizer.param_groups[0]
        self._meter.step(1, self._examples)
        self._examples = 0

    def _values(self) -> Dict[str, Any]:
        """What is known of the last step."""
        if self._meter.kept_by:
            return {}
        named = {"loss": self._loss.get("loss"), "learning_rate": self._rates.get("lr")}
        return {name: value for name, value in named.items() if value is not None}


def size_of(batch: Any, depth: int = 0) -> int:
    """How many examples a batch has, by the first tensor in it; 0: that is not known."""
    if hasattr(batch, "shape"):
        try:
            return int(batch.shape[0])
        except (TypeError, ValueError, IndexError, KeyError):
            return 0  # it has none, or is something else that has a shape
    if depth < _DEEPEST and isinstance(batch, (list, tuple, Mapping)):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            found = size_of(part, depth + 1)
            if found:
                return found
    return 0
