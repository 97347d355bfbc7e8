"""What Keras 3 has to know of a model before its steps are traced for several devices, found without reading any data.

Keras looks at a batch, which a Python generator would miss. And it calls the model, which one that is made of others and has
steps of its own, such as a GAN, cannot do: there the optimizers have to be built for those parts that they are named after.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from typing import Any, Dict, List

from .words import Refused

_OPTIMIZER = re.compile(r"(.*?)_?(?:opt|optimizer|optim)|(?:opt|optimizer|optim)_?(.*)")


def mend_build(keras: Any, tensorflow: Any) -> None:
    """Let Keras build models in this way from now on."""
    trainer: Any = import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    original = getattr(trainer, "_maybe_symbolic_build", None)
    if original is None:
        return  # a version that builds in another way

    @functools.wraps(original)
    def build(model: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if model._distribute_strategy is None:
            return
        if type(model).call is keras.Model.call:
            with model.distribute_strategy.scope():
                build_optimizers(keras, model)
            return
        if iterator is not None:
            data_batch = _like_a_batch(tensorflow, iterator._distributed_dataset.element_spec)
        with model.distribute_strategy.scope():
            model._symbolic_build(data_batch=data_batch)

    trainer._maybe_symbolic_build = build


def _like_a_batch(tensorflow: Any, spec: Any) -> Any:
    def zeros(part: Any) -> Any:
        of_a_replica = getattr(part, "_value_specs", (part,))[0]
        return tensorflow.zeros([size or 1 for size in of_a_replica.shape], of_a_replica.dtype)

    return tensorflow.nest.map_structure(zeros, spec)


def build_optimizers(keras: Any, model: Any) -> None:
    """Make the variables of a composed model's optimizers. Raises Refused where it is not to be seen what they are for."""
    found = {name: one for name, one in vars(model).items() if isinstance(one, keras.optimizers.Optimizer)}
    if len(found) > 1:
        found.pop("optimizer", None)  # Keras makes one for a model that compiles itself without
        found.pop("_optimizer", None)
    optimizers = {id(one): (name, one) for name, one in found.items() if not one.built}
    parts = {name: one for name, one in vars(model).items() if isinstance(one, keras.Layer)}
    for name, optimizer in optimizers.values():
        own = list(parts.values()) if len(optimizers) == 1 else _named_alike(name, parts)
        if not own or not all(part.built for part in own):
            raise Refused(
                f"{type(model).__name__} is made of other models, and it is not to be seen which of them {name} steps",
                f"say so before fit: model.{name}.build(model.GENERATOR.trainable_variables)",
            )
        optimizer.build([variable for part in own for variable in part.trainable_variables])


def _named_alike(name: str, parts: Dict[str, Any]) -> List[Any]:
    """The one part whose name begins as the optimizer's does: d_optimizer and discriminator, optimizer_G and netG."""
    match = _OPTIMIZER.fullmatch(name.strip("_"))
    stem = (match[1] or match[2] or "").lower() if match else ""
    names = [part for part in parts if stem and part.lower().lstrip("_").startswith(stem)]
    names = names or [part for part in parts if stem and part.lower().endswith(stem)]
    exact = [part for part in names if part.lower() == stem]
    chosen = exact or names
    return [parts[chosen[0]]] if len(chosen) == 1 else []
