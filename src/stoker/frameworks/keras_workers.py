"""What Keras 3 gets wrong when several workers train one model by `fit`, mended for the versions that were tried.

1. The model is built from a reduced batch of values that cannot be reduced; 2. metrics that are scalars are reduced over an axis
that they do not have. Source: github.com/keras-team/keras/issues/20585.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from .words import Refused

TRIED = ("3.15",)
"""The versions of Keras with which several workers were seen to train as one."""


def mend(keras: ModuleType, tensorflow: Any) -> None:
    """Mend this Keras. Raises Refused for a version that was never tried."""
    version = str(keras.__version__)
    if ".".join(version.split(".")[:2]) not in TRIED:
        raise Refused(
            f"Keras {version} with several workers was never tried here (what was: {', '.join(TRIED)})",
            f"install keras=={TRIED[-1]}.* for the job, or use tf_keras (TF_USE_LEGACY_KERAS=1), or one machine with more GPUs",
        )
    trainer: Any = import_module("keras.src.backend.tensorflow.trainer")
    reduce_per_replica = trainer.reduce_per_replica

    def of_this_replica(value: Any) -> Any:
        return value.values[0] if isinstance(value, tensorflow.distribute.DistributedValues) else value

    def build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if self._distribute_strategy is None:
            return
        if iterator is not None:
            for _, _, batches in iterator:
                data_batch = tensorflow.nest.map_structure(of_this_replica, next(batches))
                break
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    def reduce(values: Any, strategy: Any, reduction: str) -> Any:
        if trainer._collective_all_reduce_multi_worker(strategy) and reduction in ("auto", "mean"):
            return tensorflow.nest.map_structure(lambda value: strategy.reduce("MEAN", value, axis=None), values)
        return reduce_per_replica(values, strategy, reduction)

    trainer.TensorFlowTrainer._maybe_symbolic_build = build
    trainer.reduce_per_replica = reduce
