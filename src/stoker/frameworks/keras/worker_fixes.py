"""What Keras 3 gets wrong when several workers train one model by `fit`, mended for the versions that were tried.

1. The model is built from a reduced batch of values that cannot be reduced (composed_models.py); 2. metrics that are scalars are
reduced over an axis that they do not have. Source: github.com/keras-team/keras/issues/20585.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable

from stoker.frameworks.messages import Refused
from stoker.frameworks.replaced import TRIED, WORKERS, is_tried, replace

from .composed_models import mend_build


def mend(keras: Any, tensorflow: Any) -> None:
    """Mend this Keras. Raises Refused for a version that was never tried."""
    if not is_tried("keras"):
        tried = TRIED["keras"]
        raise Refused(
            f"Keras {keras.__version__} with several workers was never tried here (what was: {', '.join(tried)})",
            f"install keras=={tried[-1]}.* for the job, or {WORKERS.without}",
        )
    (path,) = WORKERS.names
    replace(WORKERS, {path: lambda original: _reduces(tensorflow, original)})
    mend_build(keras, tensorflow)


def _reduces(tensorflow: Any, reduce_per_replica: Callable[..., Any]) -> Callable[..., Any]:
    trainer: Any = import_module("keras.src.backend.tensorflow.trainer")

    def reduce(values: Any, strategy: Any, reduction: str) -> Any:
        if trainer._collective_all_reduce_multi_worker(strategy) and reduction in ("auto", "mean"):
            return tensorflow.nest.map_structure(lambda value: strategy.reduce("MEAN", value, axis=None), values)
        return reduce_per_replica(values, strategy, reduction)

    return reduce
