"""What JAX and PyTorch do for `fit` of Keras that goes on where it was (resumed_fit.py).

Several processes of JAX hold the same weights (data_parallel.py): each restores them for itself, and the chief saves its copy.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Callable, ContextManager, Dict, List

from stoker.frameworks.checkpointing.interval import Rhythm
from stoker.frameworks.keras.data.backend_readers import Streamed, is_arrays, is_known, is_stream, put_in_order
from stoker.frameworks.keras.data.dataset_passes import is_generator
from stoker.frameworks.keras.data.epoch_order import Course, Place, Reached, Read
from stoker.frameworks.keras.protocols import Model, Variable
from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.agreement import agreement
from stoker.frameworks.processes.cluster import Cluster

from .resumed_fit import Resume


class BackendResume(Resume):
    """Stands around `fit` of Keras on JAX or PyTorch."""

    reads_parts = True

    def __init__(self, keras: Any, cluster: Cluster, folder: str, rhythm: Rhythm) -> None:
        """As `Resume`. Raises Refused for a version of Keras that is not known."""
        super().__init__(keras, keras.tree, cluster, folder, rhythm)
        self._backend: str = keras.config.backend()
        self._jax: Any = import_module("jax") if self._backend == "jax" else None
        if not is_known(self._backend):
            raise Refused(
                f"how Keras {keras.__version__} reads its data on {self._backend} is not known, for --checkpoints",
                "use Keras 3.15, or Keras on TensorFlow",
            )
        tensorflow: Any = sys.modules.get("tensorflow")
        if tensorflow is not None and import_module("tensorflow.python.eager.context").global_seed() is None:
            tensorflow.random.set_seed(cluster.seed)  # its datasets shuffle as in the attempt before

    def _scope(self, model: Model) -> ContextManager[Any]:
        return nullcontext()

    def _replicas(self, model: Model) -> int:
        is_shared = self._jax is not None and self._keras.distribution.distribution() is not None
        return len(self._jax.devices()) if is_shared else 1

    def _chosen(self, model: Model, number: int) -> int:
        (found,) = agreement(self._jax).most([float(number)])
        return int(found)

    def _seed(self) -> int:
        own = import_module("keras.src.utils.rng_utils").get_random_seed()
        return self._cluster.seed if own is None else int(own)

    def _first(self, asked: Dict[str, Any]) -> Any:
        data = asked["x"]
        if is_generator(data):
            raise ValueError("it is trained from a generator, of which nothing can be read beforehand")
        if is_arrays({**asked, "steps_per_epoch": None}):
            return self._nest.map_structure(_first_rows, data)
        batch = self._batch(data)
        return batch[0] if isinstance(batch, (tuple, list)) else batch

    def _zeros(self, asked: Dict[str, Any]) -> Any:
        data = asked["x"]
        if is_arrays({**asked, "steps_per_epoch": None}):
            given = [asked[name] for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
            return tuple(self._nest.map_structure(_first_rows, part) for part in given)
        return self._batch(data)

    def _batch(self, data: Any) -> Any:
        """One of a dataset or a loader, of which nothing is read in passing: the order of its examples stays as it is."""
        if hasattr(data, "element_spec"):
            numpy: Any = import_module("numpy")

            def zeros(spec: Any) -> Any:
                return numpy.zeros([size or 1 for size in spec.shape], spec.dtype.as_numpy_dtype)

            return import_module("tensorflow").nest.map_structure(zeros, data.element_spec)
        batch = data.collate_fn([data.dataset[0]] * data.batch_size) if data.batch_size else data.dataset[0]
        batch = tuple(batch) if isinstance(batch, list) else batch
        return self._nest.map_structure(lambda part: part.numpy() if hasattr(part, "numpy") else part, batch)

    def _build(self, model: Model, asked: Dict[str, Any], *, must: bool) -> bool:
        """With its metrics, which Keras would build from a batch in a first attempt and not in a later one."""
        is_built = super()._build(model, asked, must=must)
        if is_built:
            self._build_metrics(model, asked)
        return is_built

    def settle(self, model: Model) -> None:
        """While Keras on JAX trains, its variables are empty: their values come back to them."""
        if self._jax is not None:
            model.jax_state_sync()

    def _read(self, model: Model, variable: Variable) -> Any:
        value = variable.value
        if self._jax is None:
            return self._keras.ops.convert_to_numpy(value).copy()
        if not (value.is_fully_addressable or value.is_fully_replicated):
            raise Refused(
                f"{variable.path} is shared out among processes, and the chief alone would save its part",
                "save by callbacks of the program's own (keras.callbacks.OrbaxCheckpoint), or leave --checkpoints out",
            )
        return import_module("numpy").array(value if value.is_fully_addressable else value.addressable_data(0))

    def _is_arrays(self, asked: Dict[str, Any]) -> bool:
        return is_arrays(asked)

    def _in_order(self, asked: Dict[str, Any], batch: int, call: int, place: Callable[[], Place]) -> Course:
        return put_in_order(self._keras, asked, batch, (abs(self._seed()), call), place, self._chance)

    def _is_stream(self, asked: Dict[str, Any]) -> bool:
        return is_stream(asked)

    def _passes(self, asked: Dict[str, Any], owed: List[Read], reached: Reached, done: int) -> Course:
        return Streamed(self._backend, asked, owed, reached, done, self._chance)


def _first_rows(part: Any) -> Any:
    return import_module("numpy").asarray(part[:1])
