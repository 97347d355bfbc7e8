"""What replicas of Keras on TensorFlow average so that they train as one device would with the whole batch.

Keras adds gradients up, and has every loss of its own divided by the number of replicas beforehand: a loss that a `train_step`
computes by itself is not, and its gradients would be as many times too large; nor is a last batch right of which one replica has
more examples than another. Here losses are left as they are, and gradients are averaged, by the examples of each replica.
"""

from __future__ import annotations

import functools
import threading
from importlib import import_module
from typing import Any, Callable, List, Optional
from weakref import WeakSet


class Average:
    """Of the replicas of a strategy."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._step = threading.local()  # replicas of one process are traced in threads
        self._averaged_before: WeakSet[Any] = WeakSet()  # optimizers within one that scales losses
        self._has_own_statistics = False  # on each replica, which nobody averages

    def put_in_place(self, keras: Any) -> None:
        """Let Keras average. Versions that are made otherwise are left as they are."""
        if hasattr(keras, "Variable"):
            self._put_in_keras()
            self._has_own_statistics = True
        else:
            self._put_in_tf_keras(keras)

    def _put_in_keras(self) -> None:
        """Version 3."""
        try:
            losses: Any = import_module("keras.src.losses.loss")
            optimizer: Any = import_module("keras.src.optimizers.base_optimizer").BaseOptimizer
            reduces: Any = import_module("keras.src.backend.tensorflow.optimizer").TFOptimizer
            reduce, clip = losses.reduce_values, optimizer._clip_gradients
            known = losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution
        except (ImportError, AttributeError):
            return
        if not all(map(callable, (*known, reduces._all_reduce_sum_gradients))):
            return

        @functools.wraps(reduce)
        def reduce_values(values: Any, sample_weight: Any = None, reduction: str = "sum_over_batch_size") -> Any:
            found = reduce(values, sample_weight, reduction)
            context = self._tensorflow.distribute.get_replica_context()
            if context is None or reduction != "sum" or tuple(values.shape) == ():
                return found
            return found * context.num_replicas_in_sync  # of all, as far as this replica knows

        @functools.wraps(clip)
        def clip_averaged(own: Any, gradients: Any) -> Any:
            """What is clipped is the gradient of all."""
            return clip(own, list(gradients) if own in self._averaged_before else self.averaged(list(gradients)))

        losses.scale_loss_for_distribution = losses.unscale_loss_for_distribution = lambda value: value
        losses.reduce_values = reduce_values
        optimizer._clip_gradients = clip_averaged
        self._put_in_scaling()
        reduces._all_reduce_sum_gradients = lambda own, pairs: list(pairs)

    def _put_in_scaling(self) -> None:
        """What scales losses for fp16 leaves out a step whose gradients are not finite: those of all, or replicas would part."""
        try:
            scaling: Any = import_module("keras.src.optimizers.loss_scale_optimizer").LossScaleOptimizer
            apply = scaling.apply
        except (ImportError, AttributeError):
            return

        @functools.wraps(apply)
        def apply_averaged(own: Any, grads: Any, trainable_variables: Any = None) -> Any:
            self._averaged_before.add(own.inner_optimizer)
            return apply(own, self.averaged(list(grads)), trainable_variables)

        scaling.apply = apply_averaged

    def _put_in_tf_keras(self, keras: Any) -> None:
        """Sums of losses are left to it, for it adds the gradients up."""
        try:
            scales: Any = import_module(f"{keras.__name__}.src.utils.losses_utils")
            optimizers: Any = import_module(f"{keras.__name__}.src.optimizers.utils")
            losses: Any = import_module(f"{keras.__name__}.src.losses").Loss
            scale, add, reduction = (
                scales.scale_loss_for_distribution,
                optimizers.all_reduce_sum_gradients,
                losses._get_reduction,
            )
        except (ImportError, AttributeError):
            return

        @functools.wraps(scale)
        def scale_loss(value: Any) -> Any:
            return scale(value) if self._adds_up() else value

        @functools.wraps(add)
        def average(pairs: Any) -> Any:
            pairs = list(pairs)
            if self._adds_up():
                return add(pairs)
            return list(zip(self.averaged([gradient for gradient, _ in pairs]), [variable for _, variable in pairs]))

        @functools.wraps(reduction)
        def reduced_by(own: Any) -> Any:
            """It refuses a mean of one replica's examples outside of `compile`, as it could not be added up."""
            own._allow_sum_over_batch_size = True
            return reduction(own)

        scales.scale_loss_for_distribution = scale_loss
        optimizers.all_reduce_sum_gradients = average
        losses._get_reduction = reduced_by

    def _adds_up(self) -> bool:
        """Whether this is no step of ours, or one of tf_keras whose loss is a sum."""
        return bool(getattr(self._step, "adds_up", True))

    def stepped(self, model: Any, examples: Optional[Any], step: Callable[[], Any]) -> Any:
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
        """Those of all replicas. What some variable has none of stays None."""
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

    def _average_statistics(self, model: Any) -> None:
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
