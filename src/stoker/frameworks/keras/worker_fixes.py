"""What Keras 3 gets wrong when several workers train one model by `fit`, mended for the versions that were tried.

1. The model is built from a reduced batch of values that cannot be reduced (composed_models.py); 2. metrics that are scalars are
reduced over an axis that they do not have. Source: github.com/keras-team/keras/issues/20585.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stoker.frameworks.messages import Refused

from .composed_models import mend_build

TRIED = ("3.15",)
"""The versions of Keras with which several workers were seen to train as one."""


def mend(keras: Any, tensorflow: Any) -> None:
    """Mend this Keras. Raises Refused for a version that was never tried."""
    version = str(keras.__version__)
    if ".".join(version.split(".")[:2]) not in TRIED:
        raise Refused(
            f"Keras {version} with several workers was never tried here (what was: {', '.join(TRIED)})",
            f"install keras=={TRIED[-1]}.* for the job, or use tf_keras (TF_USE_LEGACY_KERAS=1), or one machine with more GPUs",
        )
    trainer: Any = import_module("keras.src.backend.tensorflow.trainer")
    reduce_per_replica = trainer.reduce_per_replica

    def reduce(values: Any, strategy: Any, reduction: str) -> Any:
        if trainer._collective_all_reduce_multi_worker(strategy) and reduction in ("auto", "mean"):
            return tensorflow.nest.map_structure(lambda value: strategy.reduce("MEAN", value, axis=None), values)
        return reduce_per_replica(values, strategy, reduction)

    trainer.reduce_per_replica = reduce
    mend_build(keras, tensorflow)
