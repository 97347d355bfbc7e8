"""Steps of PyTorch programs: each is over when the optimizer has stepped; what a DataLoader lets one wait for is data.

By public hooks where there are some (torch.optim.optimizer.register_optimizer_step_post_hook). Nothing here waits for a device:
a loss is kept as it is, and looked at when a window is told. Nothing here may end a program either: what fails is said once, and
from then on nothing is measured.
"""

from __future__ import annotations

import functools
import os
import time
from importlib import import_module
from typing import Any, Callable, Dict, Mapping, Set

from stoker.frameworks import verification
from stoker.frameworks.messages import say
from stoker.frameworks.metrics.meter import Meter, length_of, meter
from stoker.frameworks.processes.seeding import is_aside
from stoker.frameworks.replaced import TORCH_STEPS, replace
from stoker.frameworks.torch.protocols import Loader, Optimizer

_DEEPEST = 4  # of structures in a batch


def measure(torch: Any) -> None:
    """Measure the steps of this process from now on, if somebody would hear of them."""
    found = meter()
    if found is not None:
        Steps(torch, found).put_in_place()


class Steps:
    """The optimizer steps of one process."""

    def __init__(self, torch: Any, meter: Meter) -> None:
        self._torch = torch
        self._meter = meter
        self._own = os.getpid()
        self._is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", bool)
        self._is_off = False
        self._stepped: Set[int] = set()  # optimizers, by id, since the last step of all
        self._is_training = False
        self._read: Set[int] = set()  # loaders, by id, that were read and not trained on yet
        self._waited = 0.0  # for them
        self._has_loader = False
        self._loader = 0  # that was read last, by its id
        self._loader_batches = 0  # of it; 0: that is not known
        self._epoch_batches = 0  # of the one that is trained on
        self._batches = 0  # that were trained on since the last step
        self._batch = 0  # examples of what was read last
        self._examples = 0
        self._loss: Any = None
        self._is_scaled = False  # what comes is the loss times a factor
        self._rate: Any = None
        self._is_told = False  # on how many devices it trains

    def put_in_place(self) -> None:
        """Stand where the program will pass."""
        self._meter.source = self._values
        self._meter.about["framework"] = "torch"
        import_module("torch.optim.optimizer").register_optimizer_step_post_hook(self._hears(self._after_step))
        loading = "torch.utils.data.dataloader"
        replace(
            TORCH_STEPS,
            {
                f"{loading}:_BaseDataLoaderIter.__next__": self._times_reading,
                f"{loading}:DataLoader.__iter__": self._times_beginning,
                "torch:Tensor.backward": self._notes_loss,
                "torch.amp:GradScaler.scale": self._notes_scale,
            },
        )

    def _hears(self, function: Callable[..., None]) -> Callable[..., None]:
        """The same, for a program that is to go on whatever becomes of it. A fork of the program is not heard."""

        @functools.wraps(function)
        def heard(*args: Any) -> None:
            if self._is_off or os.getpid() != self._own:
                return
            try:
                function(*args)
            except Exception as error:
                self._is_off = True
                say(f"steps are not measured any more: {error!r}")

        return heard

    def _times_reading(self, read_next: Any) -> Any:
        before, after, clock = self._hears(self._before_read), self._hears(self._after_read), time.perf_counter

        @functools.wraps(read_next)
        def read_timed(loader: Loader) -> Any:
            before(loader)
            at = clock()
            batch = read_next(loader)
            after(loader, batch, clock() - at)
            return batch

        return read_timed

    def _times_beginning(self, begin: Any) -> Any:
        """Workers are started, or asked again: that, too, is to wait for data."""
        before, began, clock = self._hears(self._before_read), self._hears(self._after_begin), time.perf_counter

        @functools.wraps(begin)
        def begin_timed(loader: Loader) -> Any:
            before(None)
            at = clock()
            found = begin(loader)
            began(clock() - at)
            return found

        return begin_timed

    def _before_read(self, loader: Loader) -> None:
        if not self._torch.is_grad_enabled():
            self._is_training = False  # it evaluates: until it trains again, no step goes on
        elif id(loader) in self._read:
            self._begin()  # what it has read before, it has not trained on: that was no step
        else:
            self._go_on()

    def _after_begin(self, seconds: float) -> None:
        self._loader = 0  # there is another one
        if self._torch.is_grad_enabled():
            self._waited += seconds

    def _after_read(self, loader: Loader, batch: Any, seconds: float) -> None:
        if self._torch.is_grad_enabled():
            if not self._has_loader:
                self._has_loader = True
                self._meter.about.update(loader_workers=_workers_of(loader))
            self._read.add(id(loader))
            self._waited += seconds
            self._batch = size_of(batch)
            if id(loader) != self._loader:
                self._loader, self._loader_batches = id(loader), length_of(loader)
            self._epoch_batches = self._loader_batches

    def _notes_loss(self, backward: Any) -> Any:
        note = self._hears(self._before_backward)

        @functools.wraps(backward)
        def backward_noted(loss: Any, *args: Any, **words: Any) -> Any:
            note(loss)
            return backward(loss, *args, **words)

        return backward_noted

    def _notes_scale(self, scale: Any) -> Any:
        note_unscaled = self._hears(self._after_scaling)

        @functools.wraps(scale)
        def scale_noted(self: Any, outputs: Any) -> Any:
            found = scale(self, outputs)
            note_unscaled(outputs)
            return found

        return scale_noted

    def _before_backward(self, loss: Any) -> None:
        if self._is_compiling():  # with the whole step
            return
        self._go_on()
        if self._has_loader:
            self._meter.waited(self._waited)
        self._examples += self._batch
        self._batches += bool(self._batch)
        self._waited, self._batch = 0.0, 0
        self._read.clear()
        if not self._is_scaled and loss.numel() == 1:
            self._loss = loss.detach()
        self._is_scaled = False

    def _after_scaling(self, outputs: Any) -> None:
        if isinstance(outputs, self._torch.Tensor) and outputs.numel() == 1:
            self._loss, self._is_scaled = outputs.detach(), True

    def _go_on(self) -> None:
        if not self._is_training:
            self._is_training = True
            self._begin()

    def _begin(self) -> None:
        self._read.clear()
        self._waited = 0.0
        if not self._meter.kept_by:
            self._meter.begin()

    def _after_step(self, optimizer: Optimizer, args: Any, words: Any) -> None:
        """With several optimizers, a step is over when one of them steps again."""
        if self._meter.kept_by or is_aside() or self._is_compiling():
            return  # within a compiled step: our counting would be compiled with it, anew at every step
        if self._stepped and id(optimizer) not in self._stepped:
            self._stepped.add(id(optimizer))
            return
        cuda = self._torch.cuda
        if self._meter.is_due and cuda.is_initialized() and cuda.is_current_stream_capturing():
            return  # a step that is recorded is not done, and nothing may be looked at meanwhile
        self._stepped = {id(optimizer)}
        if not self._is_told:
            self._is_told = True
            verification.tell_by_itself(self._devices())
        self._go_on()
        self._rate = optimizer.param_groups[0].get("lr")
        self._meter.step(1, self._examples)
        if self._batches and self._epoch_batches:  # several batches: their gradients are added up
            self._meter.epoch(-(-self._epoch_batches // self._batches))
        self._examples = self._batches = self._epoch_batches = 0

    def _devices(self) -> int:
        """On how many devices, or processes, the first step was done."""
        together, cuda = self._torch.distributed, self._torch.cuda
        met = together.get_world_size() if together.is_available() and together.is_initialized() else 1
        own = sum(cuda.memory_allocated(n) > 0 for n in range(cuda.device_count())) if cuda.is_initialized() else 1
        return int(met * max(1, own))

    def _values(self) -> Dict[str, Any]:
        """What is known of the last step."""
        if self._meter.kept_by:
            return {}
        named = {"loss": self._loss, "learning_rate": self._rate}
        return {name: value for name, value in named.items() if value is not None}


def _workers_of(loader: Loader) -> int:
    """The processes that read for a loader; 0: the program reads itself."""
    return int(getattr(loader, "_num_workers", 0))


def size_of(batch: Any, depth: int = 0) -> int:
    """How many examples a batch has, by the first tensor in it; 0: that is not known."""
    if type(batch) not in (list, tuple, dict):
        try:
            return int(batch.shape[0])
        except Exception:  # it is not a tensor; or one of which only its own library knows what can be asked
            pass
    if depth < _DEEPEST and isinstance(batch, (list, tuple, dict, Mapping)):
        for part in batch.values() if isinstance(batch, (dict, Mapping)) else batch:
            found = size_of(part, depth + 1)
            if found:
                return found
    return 0
