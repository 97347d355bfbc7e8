"""A plain PyTorch loop, written for one device, on several processes: each reads its part of the data, gradients are averaged.

Ours do what DistributedDataParallel does, from outside: parameters start as the first process has them, and every optimizer
steps with the average of all gradients. BatchNorm's statistics stay each process's own, and nothing is sent while the backward
pass still computes. Sources: torch.nn.parallel.DistributedDataParallel; torch.utils.data.distributed.DistributedSampler.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from typing import Any, Dict, List
from weakref import WeakValueDictionary

from stoker.frameworks import verification
from stoker.frameworks.messages import Refused
from stoker.frameworks.metrics.meter import meter
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.processes.learning_rates import Rates
from stoker.frameworks.processes.rank_files import save_elsewhere
from stoker.frameworks.processes.seeding import begin_alike, is_aside
from stoker.frameworks.replaced import TORCH_AVERAGE, replace
from stoker.frameworks.torch.protocols import Module, Optimizer, Parameter

from .data_shares import Share
from .source_checks import check_devices

_MOST_TRIALS = 10
"""A program may compute gradients so often before it has an optimizer, to look at something."""

_AGREE_SECONDS = 60.0
"""A process waits for so long for what the first one says."""

_LOOK_STEPS = 100
"""Every so many steps it is looked whether all processes are in step."""


class Loop:
    """The part of one process in the training of all."""

    def __init__(self, torch: Any, cluster: Cluster) -> None:
        self._torch = torch
        self._cluster = cluster
        self._has_gpus = bool(cluster.devices) and not cluster.is_pretended
        self._together: Any = import_module("torch.distributed")
        self._optimizers: WeakValueDictionary[int, Any] = WeakValueDictionary()  # the program may be done with one
        self._shapes: set[Any] = set()  # of the parameters that some optimizer has stepped
        self._averaged: set[int] = set()  # optimizers whose gradients are averaged for the next step
        self._steps = 0
        self._meter = meter()
        self._rates = Rates(cluster.processes)
        self._share = Share(torch, cluster, self, self._agreed)

    def put_in_place(self) -> None:
        """Join the others, and stand where the program will pass."""
        torch, cluster = self._torch, self._cluster
        if self._has_gpus and not torch.cuda.is_available():
            raise Refused(
                f"asked for a GPU for each process, and PyTorch {torch.__version__} sees none",
                "install a PyTorch with CUDA in the job's environment, or ask for no GPUs",
            )
        self._together.init_process_group("cpu:gloo,cuda:nccl" if self._has_gpus else "gloo")
        atexit.register(self._leave)
        begin_alike(cluster, torch)
        self._share.at_evaluation = self._share_buffers
        self._share.put_in_place()
        clips = ("torch.nn.utils.clip_grad", "torch.nn.utils")
        replace(
            TORCH_AVERAGE,
            {
                "torch.distributed:init_process_group": lambda _: _is_done_already,
                "torch.optim:Optimizer.add_param_group": self._adds_together,
                "torch.optim.lr_scheduler:ReduceLROnPlateau.step": self._follows_together,
                **{
                    f"{module}:{name}": self._with_all
                    for module in clips
                    for name in ("clip_grad_norm_", "clip_grad_value_")
                },
                "torch.amp:GradScaler.unscale_": self._unscales_together,
                "torch.amp:GradScaler.step": self._steps_together,
                "torch:Tensor.backward": self._sees_backward,
                "torch.nn.parallel:DistributedDataParallel.__init__": _refuses_another,
            },
        )
        hooks = import_module("torch.optim.optimizer")
        hooks.register_optimizer_step_pre_hook(self._before_step)
        hooks.register_optimizer_step_post_hook(self._after_step)
        if not cluster.is_chief:
            os.environ.setdefault("TQDM_DISABLE", "1")
            save_elsewhere()

    def _leave(self) -> None:
        if not self._together.is_initialized():
            return
        if not hasattr(sys, "last_type"):  # it has come to its end
            with suppress(Exception):  # the first process has gone before
                self._store().set(f"stoker-ended-{self._cluster.rank}", str(self._steps))
        self._together.destroy_process_group()

    def can_train(self) -> bool:
        """Whether there is an optimizer."""
        return bool(self._shapes)

    def _agreed(self, name: str, mine: str) -> str:
        """What the first process has said under this name; where it says nothing for long, what this one says."""
        store, key = self._store(), f"stoker-agreed-{name}"
        if self._cluster.is_chief:
            store.set(key, mine)
            return mine
        try:
            store.wait([key], timedelta(seconds=_AGREE_SECONDS))
            return str(store.get(key).decode())
        except RuntimeError:
            if name == "seed":
                raise Refused(
                    f"process {self._cluster.rank} trains, and the first one does not, for {_AGREE_SECONDS:.0f} seconds now",
                    "let all processes train on the same data at the same time, or say --distribute none",
                ) from None
            return mine  # it goes another way, of which the next step will tell

    def _store(self) -> Any:
        return self._together.distributed_c10d._get_default_store()

    def _exchange(self, flat: Any) -> None:
        """Add it up over all processes. Raises Refused if one has ended its training: it must have decided so by itself."""
        try:
            self._together.all_reduce(flat)
        except RuntimeError:
            with suppress(Exception):
                for rank in range(self._cluster.processes):
                    if self._store().check([f"stoker-ended-{rank}"]):
                        steps = self._store().get(f"stoker-ended-{rank}").decode()
                        why = f"process {rank} has ended after {steps} steps, and this one goes on after {self._steps}"
                        raise Refused(
                            f"{why}: each decides by numbers of its own share",
                            "stop by what is the same for all, such as a loss of validation, or after so many epochs",
                        ) from None
            raise

    def _adds_together(self, add: Any) -> Any:
        """Called for the first parameters, too. They begin as the first process has them; a new gradient is not averaged yet."""
        loop = self

        @functools.wraps(add)
        def add_together(optimizer: Optimizer, group: Any) -> None:
            add(optimizer, group)
            *others, added = optimizer.param_groups
            loop._rates.scale_group(added, others)
            key = id(optimizer)
            if key not in loop._optimizers:
                loop._optimizers[key] = optimizer
                loop._share.trains_anew()
            for parameter in optimizer.param_groups[-1]["params"]:
                loop._together.broadcast(parameter.data, src=0)
                if parameter.requires_grad and parameter.is_leaf:  # the hook does not keep the optimizer
                    parameter.register_post_accumulate_grad_hook(lambda _, key=key: loop._averaged.discard(key))
            loop._shapes.add(frozenset(Counter(parameter.shape for parameter in _parameters(optimizer)).items()))

        return add_together

    def _follows_together(self, follow: Any) -> Any:
        loop = self

        @functools.wraps(follow)
        def follow_together(scheduler: Any, metrics: Any, *args: Any, **words: Any) -> Any:
            return follow(scheduler, loop._average_of(float(metrics)), *args, **words)

        return follow_together

    # What looks at gradients before the step has to see those of all.

    def _unscales_together(self, unscale: Any) -> Any:
        loop = self

        @functools.wraps(unscale)
        def unscale_together(self: Any, optimizer: Optimizer) -> Any:
            loop._average(optimizer)
            return unscale(self, optimizer)

        return unscale_together

    def _steps_together(self, step: Any) -> Any:
        loop = self

        @functools.wraps(step)
        def step_together(self: Any, optimizer: Optimizer, *args: Any, **words: Any) -> Any:
            loop._average(optimizer)
            try:
                return step(self, optimizer, *args, **words)
            finally:
                loop._averaged.discard(id(optimizer))  # a step that was left out has no end that we hear of

        return step_together

    def _sees_backward(self, backward: Any) -> Any:
        """To train in a way that is not seen from here would be to train alone: it is refused."""
        loop, seen = self, itertools.count(1)

        @functools.wraps(backward)
        def backward_seen(tensor: Any, *args: Any, **words: Any) -> Any:
            if not loop._shapes and next(seen) > _MOST_TRIALS:
                raise Refused(
                    "the program computes gradients and has no torch.optim optimizer: its weights would be each process's own",
                    "let an optimizer step them (torch.optim.SGD), or say --distribute none",
                )
            return backward(tensor, *args, **words)

        return backward_seen

    def _with_all(self, function: Any) -> Any:
        @functools.wraps(function)
        def stand_in(parameters: Any, *args: Any, **words: Any) -> Any:
            meant = [parameters] if isinstance(parameters, self._torch.Tensor) else list(parameters)
            ids = set(map(id, meant))
            for optimizer in self._optimizers.values():
                if any(id(parameter) in ids for parameter in _parameters(optimizer)):
                    self._average(optimizer)
            return function(meant, *args, **words)

        return stand_in

    def _before_step(self, optimizer: Optimizer, args: Any, words: Any) -> None:
        if is_aside():
            return
        if (len(args) > 1 and args[1] is not None) or words.get("closure") is not None:
            raise Refused(
                "an optimizer that computes gradients within its step (a closure) cannot be averaged from outside",
                "use an optimizer without one, or DistributedDataParallel in the program with --distribute none",
            )
        if self._share.trains_on_all():
            raise Refused(
                "the model is told to evaluate (model.eval()) and trained, so each process reads all of the data",
                "call model.train() before each epoch, of the model or of the part that is trained",
            )
        self._average(optimizer)

    def _after_step(self, optimizer: Optimizer, args: Any, words: Any) -> None:
        if is_aside():
            return
        self._averaged.discard(id(optimizer))
        if self._steps % _LOOK_STEPS == 0:
            self._look(optimizer)
        self._steps += 1

    def _average(self, optimizer: Optimizer) -> None:
        """Replace its gradients by the average of all processes. One that is missing here counts as zeros, if others have it."""
        if id(optimizer) in self._averaged:
            return
        self._averaged.add(id(optimizer))
        torch = self._torch
        kinds: Dict[Any, List[Any]] = {}
        for parameter in _parameters(optimizer):
            if parameter.grad is not None and parameter.grad.is_sparse:
                raise Refused("sparse gradients cannot be averaged from outside", "use dense ones (sparse=False)")
            kinds.setdefault((parameter.device, parameter.dtype), []).append(parameter)
        with torch.no_grad():
            for (device, dtype), parameters in kinds.items():
                has = [float(parameter.grad is not None) for parameter in parameters]
                parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
                flat = torch.cat([torch.tensor(has, device=device, dtype=dtype), *(part.reshape(-1) for part in parts)])
                if flat.is_cuda:
                    torch.cuda.current_stream(device).synchronize()  # the next line but one would wait for it, too
                began = time.perf_counter()
                self._exchange(flat)
                counts, found = flat[: len(has)].tolist(), flat[len(has) :].div_(self._cluster.processes)
                if self._meter is not None:
                    self._meter.together(time.perf_counter() - began)
                for parameter, count, part in zip(parameters, counts, found.split([p.numel() for p in parameters])):
                    if count and parameter.grad is None:
                        parameter.grad = part.view_as(parameter).clone()
                    elif count:
                        parameter.grad.copy_(part.view_as(parameter))

    def _look(self, optimizer: Optimizer) -> None:
        """After the first step, and now and then: whether all have the same parameters, and each its own data."""
        torch, count = self._torch, self._cluster.processes
        if not self._share.was_read and self._share.was_looked_at:
            raise Refused(
                "the program began to read its data before it had an optimizer, so that each process reads all of them",
                "make the optimizer before the iterator of the DataLoader",
            )
        if not self._share.was_read:
            raise Refused(
                f"all {count} processes read the same data: the program uses no torch.utils.data.DataLoader",
                "read the data by a DataLoader, or say --distribute none",
            )
        if not self._steps:
            trained = [parameter for its in self._optimizers.values() for parameter in _parameters(its)]
            check_devices({parameter.device.type for parameter in trained}, self._has_gpus)
        rate = float(optimizer.param_groups[0].get("lr", 0.0))
        sums = [parameter.detach().double().sum() for parameter in _parameters(optimizer)]
        total = torch.stack([torch.stack(sums).sum(), torch.tensor(rate, dtype=torch.float64, device=sums[0].device)])
        low, high = total.clone(), total.clone()
        self._together.all_reduce(low, op=self._together.ReduceOp.MIN)
        self._together.all_reduce(high, op=self._together.ReduceOp.MAX)
        is_alike = torch.allclose(
            low, high, rtol=1e-6, atol=1e-12, equal_nan=True
        )  # what is not a number is so for all
        in_step = count if is_alike else 1
        if not self._steps or in_step != count:
            note = self._rates.note(optimizer.param_groups[0], rate)
            verification.tell(self._cluster, "averaged gradients", count, in_step, self._share.batch_size, note)

    def has_all(self, module: Module) -> bool:
        """Whether it has all that some optimizer steps: a teacher, or the frozen part of a model, has not."""
        ids = set(map(id, module.parameters()))
        return any({id(p) for p in _parameters(optimizer)} <= ids for optimizer in self._optimizers.values())

    def has_some(self, module: Module) -> bool:
        """Whether it has anything that an optimizer steps."""
        ids = set(map(id, module.parameters()))
        return any(id(p) in ids for optimizer in self._optimizers.values() for p in _parameters(optimizer))

    def _share_buffers(self, module: Module) -> None:
        """Statistics such as BatchNorm's are each process's own; when the model is evaluated, all use those of the first.

        So they do for a copy of a model that is averaged over time.
        """
        shapes = Counter(parameter.shape for parameter in module.parameters())
        if any(not Counter(dict(of_one)) - shapes for of_one in self._shapes):
            for buffer in module.buffers():
                self._together.broadcast(buffer, src=0)

    def _average_of(self, number: float) -> float:
        total = self._torch.tensor(number, dtype=self._torch.float64)
        self._together.all_reduce(total)
        return float(total) / self._cluster.processes


def _is_done_already(*_: Any, **__: Any) -> None:
    raise Refused(
        "the program makes a process group of its own, and its processes have met already (--distribute)",
        "say --distribute none",
    )


def _parameters(optimizer: Optimizer) -> List[Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]


def _refuses_another(begin: Any) -> Any:
    @functools.wraps(begin)
    def begin_refused(model: Module, *args: Any, **words: Any) -> None:
        raise Refused(
            "a library of the program's distributes it, too (DistributedDataParallel), which was not to be seen beforehand",
            "say --distribute none: the variables that it needs for that are set",
        )

    return begin_refused
