"""What TensorFlow does for `fit` that goes on where it was (resumed_fit.py): its strategies, its variables, its data."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, ContextManager, Dict, List

from stoker.frameworks.checkpointing.interval import Rhythm
from stoker.frameworks.keras.data.dataset_passes import ENDLESS, Passes, is_stream
from stoker.frameworks.keras.data.epoch_order import Course, Place, Reached, Read, is_arrays, put_in_order
from stoker.frameworks.keras.protocols import Model, Variable
from stoker.frameworks.processes.cluster import Cluster

from .resumed_fit import Resume


class TensorflowResume(Resume):
    """Stands around `fit` of Keras 3 on TensorFlow."""

    passes = Passes

    def __init__(self, keras: Any, tensorflow: Any, cluster: Cluster, folder: str, rhythm: Rhythm) -> None:
        """As `Resume`."""
        super().__init__(keras, tensorflow.nest, cluster, folder, rhythm)
        self._tensorflow = tensorflow

    def _scope(self, model: Model) -> ContextManager[Any]:
        scope: ContextManager[Any] = model.distribute_strategy.scope()
        return scope

    def _replicas(self, model: Model) -> int:
        return int(model.distribute_strategy.num_replicas_in_sync)

    def _chosen(self, model: Model, number: int) -> int:
        strategy, tensorflow = model.distribute_strategy, self._tensorflow
        mine = tensorflow.constant(number, tensorflow.int64)

        def chosen() -> Any:
            """On each replica; the very first counts."""
            replica = tensorflow.distribute.get_replica_context().replica_id_in_sync_group
            return tensorflow.where(tensorflow.equal(replica, 0), mine, tensorflow.zeros_like(mine))

        return int(strategy.reduce("SUM", tensorflow.function(strategy.run)(chosen), axis=None).numpy())

    def _seed(self) -> int:
        own = import_module("tensorflow.python.eager.context").global_seed()
        return self._cluster.seed if own is None else int(own)

    def _first(self, asked: Dict[str, Any]) -> Any:
        data = asked["x"]
        if isinstance(data, self._tensorflow.data.Dataset):
            (element,) = data.take(1)
            data = element[0] if isinstance(element, tuple) else element
        return self._nest.map_structure(lambda part: part[:1], data)

    def _zeros(self, asked: Dict[str, Any]) -> Any:
        tensorflow, data = self._tensorflow, asked["x"]

        def zeros(spec: Any) -> Any:
            return tensorflow.zeros([size or 1 for size in spec.shape], spec.dtype)

        if isinstance(data, tensorflow.data.Dataset):
            return self._nest.map_structure(zeros, data.element_spec)
        given = [asked[name] for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
        return tuple(self._nest.map_structure(lambda part: part[:1], part) for part in given)

    def settle(self, model: Model) -> None:
        """Nothing: TensorFlow's readers can always go on."""

    def _read(self, model: Model, variable: Variable) -> Any:
        raw = variable if callable(variable.value) else variable.value
        return model.distribute_strategy.experimental_local_results(raw)[0].numpy()

    def _is_arrays(self, asked: Dict[str, Any]) -> bool:
        return is_arrays(asked, self._nest)

    def _in_order(self, asked: Dict[str, Any], batch: int, call: int, place: Callable[[], Place]) -> Course:
        return put_in_order(asked, batch, call, place, self._keras, self._tensorflow, self._seed())

    def _is_stream(self, asked: Dict[str, Any]) -> bool:
        return is_stream(asked, self._tensorflow)

    def _passes(self, asked: Dict[str, Any], owed: List[Read], reached: Reached, done: int) -> Course:
        data = asked["x"]
        length = int(data.cardinality()) if isinstance(data, self._tensorflow.data.Dataset) else ENDLESS
        return self.passes(asked, length, owed, reached, done)
