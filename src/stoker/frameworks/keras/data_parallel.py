"""Keras on JAX, on several devices: Keras' own DataParallel over all of them, and each process reads its part of the data.

What Keras makes of a process's batch is the global one (make_array_from_process_local_data): a script says what it says for one
device. It was seen to come to the weights of one process with the whole batch: Keras 3.15, JAX 0.10.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from importlib import import_module
from typing import Any, Callable, Dict, List

from stoker.frameworks import verification
from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.processes.learning_rates import Rates
from stoker.frameworks.processes.seeding import begin_alike
from stoker.frameworks.replaced import WHOLE_DATA, replace

from .chief_files import throw_away, writing_chief
from .composed_models import optimizers_of
from .fit import Call, surround_fit

_DEFAULT_BATCH = 32  # of Keras
OWN = frozenset(
    {"set_distribution", "DataParallel", "ModelParallel", "distribution.initialize", "distributed.initialize"}
)
"""What a program that distributes itself uses."""


def begin(keras: Any, cluster: Cluster) -> None:
    """Let the processes meet, and train as one from now on."""
    jax: Any = import_module("jax")
    if cluster.is_pretended and cluster.devices > 1:
        jax.config.update("jax_num_cpu_devices", cluster.devices)  # parts of the processor stand for accelerators
    if cluster.processes > 1 and not jax.distributed.is_initialized():
        if not cluster.devices or cluster.is_pretended:
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], cluster.processes, cluster.rank)
    there = len(jax.local_devices())
    if cluster.devices and not cluster.is_pretended and there != cluster.devices:
        raise Refused(
            f"asked for {cluster.devices} GPUs, JAX {jax.__version__} sees {there} ({jax.default_backend()})",
            "install JAX with CUDA (jax[cuda12]) in the job's environment, or ask for fewer",
        )
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    begin_alike(cluster)
    keras.utils.set_random_seed(cluster.seed % (1 << 31))  # all begin with the same weights, and shuffle data alike
    Shared(keras, jax, cluster).put_in_place()


class Shared:
    """What is done around `Model.fit`."""

    def __init__(self, keras: Any, jax: Any, cluster: Cluster) -> None:
        self._keras = keras
        self._jax = jax
        self._cluster = cluster
        self._count = cluster.processes  # that each read a part
        self._replicas = cluster.replicas  # that each compute with one
        self._devices = max(1, cluster.devices)  # of this process
        self._rates = Rates(self._replicas)
        self._datasets: Dict[int, "tuple[Any, Any]"] = {}  # by id, and this process's part of each

    def put_in_place(self) -> None:
        """From now on `fit` trains on all devices of all processes."""
        keras = self._keras
        surround_fit(keras, "distribute", self._run)
        made = {"keras:Model.evaluate": self._evaluates_whole, "keras:Model.predict": self._alone}
        replace(WHOLE_DATA["keras"], made)
        if not self._cluster.is_chief:
            throw_away(keras)

    def _evaluates_whole(self, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        """All of the data, by every process."""
        signature = inspect.signature(evaluate)

        @functools.wraps(evaluate)
        def evaluate_whole(model: Model, *args: Any, **words: Any) -> Any:
            bound = signature.bind(model, *args, **words)
            for name in ("x", "y", "sample_weight"):
                if bound.arguments.get(name) is not None:
                    bound.arguments[name] = self._whole(bound.arguments[name])
            return evaluate(*bound.args, **bound.kwargs)

        return evaluate_whole

    def _alone(self, predict: Callable[..., Any]) -> Callable[..., Any]:
        """Each process predicts for itself all that it is given, with a copy of the weights: every one has all of it."""
        distribution = self._keras.distribution

        @functools.wraps(predict)
        def predict_alone(model: Model, *args: Any, **words: Any) -> Any:
            together = distribution.distribution()
            kept = [(variable, variable._value, variable._layout) for variable in model.variables]
            try:
                distribution.set_distribution(None)
                for variable, value, _ in kept:
                    variable._value, variable._layout = self._jax.numpy.array(value.addressable_data(0)), None
                model.predict_function = None  # which is compiled for where the weights were
                return predict(model, *args, **words)
            finally:
                for variable, value, layout in kept:
                    variable._value, variable._layout = value, layout
                model.predict_function = None
                distribution.set_distribution(together)

        return predict_alone

    def _run(self, call: Call, fit: Callable[[], Any]) -> Any:
        model, asked = call.model, call.asked
        self._share(asked)
        for optimizer in optimizers_of(self._keras, model):
            self._rates.scale(optimizer)
        seen: Dict[str, int] = {}
        step = model.train_step

        def train_step(state: Any, data: Any) -> Any:
            """One step, as JAX traces it: its batch is the global one."""
            seen["batch"] = int(self._jax.tree_util.tree_leaves(data)[0].shape[0])
            return step(state, data)

        model.train_step = train_step
        asked["callbacks"] = self._callbacks(asked.get("callbacks"), seen)
        if not self._cluster.is_chief:
            asked["verbose"] = 0
        try:
            return fit()
        finally:
            del model.train_step

    def _share(self, asked: Dict[str, Any]) -> None:
        """This process's part of the data, and so the fewer steps. Raises Refused for what has no parts."""
        data: Any = asked.get("x")
        if hasattr(data, "element_spec"):
            if id(data) not in self._datasets:
                self._datasets[id(data)] = data, self._part_of_dataset(data)
            _, asked["x"] = self._datasets[id(data)]
        elif hasattr(data, "shape") or isinstance(data, (list, tuple, dict)):
            for name in ("x", "y", "sample_weight"):
                if asked.get(name) is not None:
                    asked[name] = self._jax.tree_util.tree_map(self._part_of_array, asked[name])
            asked["batch_size"] = (asked.get("batch_size") or _DEFAULT_BATCH) * self._devices
        else:
            raise Refused(
                f"batches come from a {type(data).__name__}, and all {self._count} processes would read the same",
                "use arrays or a tf.data.Dataset, or say --distribute none",
            )
        if asked.get("validation_data") is not None:
            asked["validation_data"] = self._whole(asked["validation_data"])
        if asked.get("steps_per_epoch"):
            asked["steps_per_epoch"] = -(-asked["steps_per_epoch"] // self._replicas)

    def _part_of_array(self, array: Any, count: int = 0, rank: int = 0) -> Any:
        """Some examples at the beginning are read twice, so that all processes, and all devices, have as many.

        `count`, `rank`: of so many parts, which; 0: those of the processes.
        """
        if not hasattr(array, "shape") or not len(array):
            return array  # Keras says better what is wrong with it
        numpy: Any = import_module("numpy")
        count, rank = (count, rank) if count else (self._count, self._cluster.rank)
        rows = numpy.asarray(array)
        size = _rounded(-(-len(rows) // count), self._devices)
        return rows[(rank + count * numpy.arange(size)) % len(rows)]

    def _whole(self, data: Any) -> Any:
        """What is evaluated: all of it, and some examples twice, so that all devices have as many."""
        if self._devices == 1:
            return data
        if not hasattr(data, "element_spec"):
            return self._jax.tree_util.tree_map(lambda array: self._part_of_array(array, 1, 0), data)
        return data.map(self._taker(import_module("tensorflow"), 1, 0))

    def _taker(self, tensorflow: Any, count: int, rank: int) -> Callable[..., Any]:
        """What takes from each batch one of so many parts, as `_part_of_array` does."""

        def part(*element: Any) -> Any:
            rows = tensorflow.shape(tensorflow.nest.flatten(element)[0])[0]
            mine = (rank + count * tensorflow.range(_rounded((rows + count - 1) // count, self._devices))) % rows
            found = tensorflow.nest.map_structure(lambda values: tensorflow.gather(values, mine), element)
            return found if len(found) > 1 else found[0]

        return part

    def _part_of_dataset(self, dataset: Any) -> Any:
        """Of each of its batches, made larger, one part for each process: they all read it, in the same order."""
        from .distributed_fit import batch_of

        tensorflow: Any = import_module("tensorflow")
        batch = batch_of(tensorflow, dataset)
        if not batch:
            raise Refused("the batch of its dataset is not known", "batch it with .batch(n), or say --distribute none")
        part = self._taker(tensorflow, self._count, self._cluster.rank)
        return dataset.rebatch(batch * self._replicas).map(part)

    def _callbacks(self, given: Any, seen: Dict[str, int]) -> Any:
        callbacks = writing_chief(given, self._cluster)
        if callbacks is None:
            return given
        cluster, expected, rates = self._cluster, self._replicas, self._rates
        told: List[bool] = []

        class FirstStep(self._keras.callbacks.Callback):  # type: ignore[misc,name-defined]
            """Tells what the first step has shown: on how many devices the weights are, and how large the batch was."""

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if not told and seen:  # a step that was traced before has not been looked into again
                    told.append(True)
                    weights = self.model.trainable_variables
                    count = len(weights[0].value.sharding.device_set) if weights else 1
                    note = rates.note(self.model.optimizer, math.nan)  # within an epoch its variables cannot be read
                    verification.tell(cluster, "DataParallel", expected, count, seen.get("batch", 0) // count, note)

        return [*callbacks, FirstStep()]


def _rounded(rows: Any, devices: int) -> Any:
    """The next multiple."""
    return (rows + devices - 1) // devices * devices
