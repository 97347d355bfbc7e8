"""What replicas of Keras on TensorFlow average so that they train as one device would with the whole batch.

Keras adds gradients up, and has every loss of its own divided by the number of replicas beforehand: a loss that a `train_step`
computes by itself is not, and its gradients would be as many times too large; nor is a last batch right of which one replica has
more examples than another. Here losses are left as they are, and gradients are averaged, by the examples of each replica.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, List, Optional
from weakref import WeakSet

from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.replaced import AVERAGES, Make, replace


class Average:
    """Of the replicas of a strategy."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._step = threading.local()  # replicas of one process are traced in threads
        self._averaged_before: WeakSet[Any] = WeakSet()  # optimizers within one that scales losses
        self._has_own_statistics = False  # on each replica, which nobody averages

    def put_in_place(self, keras: Any) -> None:
        """Let Keras average in this way. A version that is made otherwise is left as it is, whole."""
        made = self._in_keras() if hasattr(keras, "Variable") else self._in_tf_keras()
        is_replaced = replace(AVERAGES[keras.__name__], made)
        self._has_own_statistics = is_replaced and hasattr(keras, "Variable")

    def _in_keras(self) -> Dict[str, Make]:
        """What is replaced in Keras 3."""

        def reduce_values(reduce: Any) -> Any:
            @functools.wraps(reduce)
            def reduced(values: Any, sample_weight: Any = None, reduction: str = "sum_over_batch_size") -> Any:
                found = reduce(values, sample_weight, reduction)
                context = self._tensorflow.distribute.get_replica_context()
                if context is None or reduction != "sum" or tuple(values.shape) == ():
                    return found
                return found * context.num_replicas_in_sync  # of all, as far as this replica knows

            return reduced

        def clip_averaged(clip: Any) -> Any:
            @functools.wraps(clip)
            def clipped(own: Any, gradients: Any) -> Any:
                """What is clipped is the gradient of all."""
                is_done = own in self._averaged_before
                return clip(own, list(gradients) if is_done else self.averaged(list(gradients)))

            return clipped

        def apply_averaged(apply: Any) -> Any:
            @functools.wraps(apply)
            def applied(own: Any, grads: Any, trainable_variables: Any = None) -> Any:
                """A step whose gradients are not finite is left out: those of all, or replicas would part."""
                self._averaged_before.add(own.inner_optimizer)
                return apply(own, self.averaged(list(grads)), trainable_variables)

            return applied

        losses, optimizers = "keras.src.losses.loss", "keras.src.optimizers"
        return {
            f"{losses}:scale_loss_for_distribution": lambda _: lambda value: value,
            f"{losses}:unscale_loss_for_distribution": lambda _: lambda value: value,
            f"{losses}:reduce_values": reduce_values,
            f"{optimizers}.base_optimizer:BaseOptimizer._clip_gradients": clip_averaged,
            f"{optimizers}.loss_scale_optimizer:LossScaleOptimizer.apply": apply_averaged,
            "keras.src.backend.tensorflow.optimizer:TFOptimizer._all_reduce_sum_gradients": lambda _: (
                lambda own, pairs: list(pairs)
            ),
        }

    def _in_tf_keras(self) -> Dict[str, Make]:
        """Sums of losses are left to it, for it adds the gradients up."""

        def scale_loss(scale: Any) -> Any:
            @functools.wraps(scale)
            def scaled(value: Any) -> Any:
                return scale(value) if self._adds_up() else value

            return scaled

        def average(add: Any) -> Any:
            @functools.wraps(add)
            def averaged(pairs: Any) -> Any:
                pairs = list(pairs)
                if self._adds_up():
                    return add(pairs)
                return list(zip(self.averaged([gradient for gradient, _ in pairs]), [one for _, one in pairs]))

            return averaged

        def reduced_by(reduction: Any) -> Any:
            @functools.wraps(reduction)
            def reduced(own: Any) -> Any:
                """It refuses a mean of one replica's examples outside of `compile`, as it could not be added up."""
                own._allow_sum_over_batch_size = True
                return reduction(own)

            return reduced

        return {
            "tf_keras.src.utils.losses_utils:scale_loss_for_distribution": scale_loss,
            "tf_keras.src.optimizers.utils:all_reduce_sum_gradients": average,
            "tf_keras.src.losses:Loss._get_reduction": reduced_by,
        }

    def _adds_up(self) -> bool:
        """Whether this is no step of ours, or one of tf_keras whose loss is a sum."""
        return bool(getattr(self._step, "adds_up", True))

    def stepped(self, model: Model, examples: Optional[Any], step: Callable[[], Any]) -> Any:
        """Do a step of one replica. `examples`: how many it has, as a tensor; None: that is not known."""
        self._step.examples = examples
        losses = self._tensorflow.nest.flatten(getattr(model, "loss", None))
        kinds = {getattr(loss, "reduction", "") for loss in losses}
        self._step.adds_up = bool(kinds & {"sum", "none"})
        self._step.is_unreduced = bool(kinds & {"none", None})
        try:
            told = step()
            if self._has_own_statistics:
                self._average_statistics(model)
        finally:
            self._step.examples, self._step.adds_up, self._step.is_unreduced = None, True, False
        return told

    def averaged(self, gradients: List[Any]) -> List[Any]:
        """The averages of all replicas. What some variable has none of stays None."""
        context = self._tensorflow.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return gradients
        there = [one for one in gradients if one is not None]
        mean = self._mean(context, there) if there else []
        if getattr(self._step, "is_unreduced", False):  # a sum over a replica's examples
            mean = [_times(self._tensorflow, one, context.num_replicas_in_sync) for one in mean]
        found = iter(mean)
        return [None if one is None else next(found) for one in gradients]

    def _mean(self, context: Any, values: List[Any]) -> List[Any]:
        tensorflow = self._tensorflow
        examples = getattr(self._step, "examples", None)
        if examples is None or any(
            one.dtype == tensorflow.float16 for one in values
        ):  # which cannot hold large products
            reduced = context.all_reduce(tensorflow.distribute.ReduceOp.SUM, values)
            return [_times(tensorflow, one, 1.0 / context.num_replicas_in_sync) for one in reduced]
        weighted = [_times(tensorflow, one, examples) for one in values]
        *reduced, count = context.all_reduce(tensorflow.distribute.ReduceOp.SUM, [*weighted, examples])
        return [_times(tensorflow, one, 1.0 / count) for one in reduced]

    def _average_statistics(self, model: Model) -> None:
        """What BatchNorm has seen, for each replica sees its own: all evaluate alike then, and one copy of them is saved."""
        tensorflow = self._tensorflow
        context = tensorflow.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return
        kept = [
            variable
            for layer in model._flatten_layers()
            for variable in (getattr(layer, "moving_mean", None), getattr(layer, "moving_variance", None))
            if variable is not None and layer.trainable
        ]
        if not kept:
            return
        values = [tensorflow.convert_to_tensor(variable) for variable in kept]
        for kind in dict.fromkeys(one.dtype for one in values):
            of_kind = [(variable, one) for variable, one in zip(kept, values) if one.dtype == kind]
            whole = tensorflow.concat([tensorflow.reshape(one, [-1]) for _, one in of_kind], 0)
            (flat,) = self._mean(context, [whole])  # one message instead of many
            parts = tensorflow.split(flat, [int(one.shape.num_elements()) for _, one in of_kind])
            for (variable, _), part in zip(of_kind, parts):
                variable.assign(tensorflow.reshape(part, variable.shape))


def _times(tensorflow: Any, value: Any, number: Any) -> Any:
    """One replica may have no examples, and no number for their mean: it counts for nothing then."""
    if isinstance(value, tensorflow.IndexedSlices):
        return tensorflow.IndexedSlices(_times(tensorflow, value.values, number), value.indices, value.dense_shape)
    return tensorflow.math.multiply_no_nan(value, tensorflow.cast(number, value.dtype))
