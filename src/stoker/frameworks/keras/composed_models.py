"""What Keras 3 has to know of a model before its steps are traced for several devices, found without reading any data.

Keras looks at a batch, which a Python generator would miss. And it calls the model, which one that is made of others and has
steps of its own, such as a GAN, cannot do: there the optimizers have to be built for those parts that they are named after.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, List

from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.messages import Refused
from stoker.frameworks.replaced import BUILD, replace

_OPTIMIZER = re.compile(r"(?:optimizer|optim|opt)_?(.+)|(.*?)_?(?:optimizer|optim|opt)", re.IGNORECASE)


def optimizers_of(keras: Any, model: Model) -> List[Any]:
    """All that a model has: those that train in two ways have more than one."""
    kinds = [
        keras.optimizers.Optimizer,
        *filter(None, [getattr(getattr(keras.optimizers, "legacy", None), "Optimizer", None)]),
    ]
    own = [value for value in vars(model).values() if isinstance(value, tuple(kinds))]
    return list({id(one): one for one in (model.optimizer, *own) if one is not None}.values())


def mend_build(keras: Any, tensorflow: Any) -> None:
    """Let Keras build models in this way from now on."""
    (path,) = BUILD.names
    replace(BUILD, {path: lambda original: functools.wraps(original)(_builds(keras, tensorflow))})


def _builds(keras: Any, tensorflow: Any) -> Callable[..., None]:
    def build(model: Model, iterator: Any = None, data_batch: Any = None) -> None:
        if model._distribute_strategy is None:
            return
        if type(model).call is keras.Model.call:
            with model.distribute_strategy.scope():
                build_optimizers(keras, model)
            return
        with model.distribute_strategy.scope():
            if iterator is not None and _build_by_kind(tensorflow, model, iterator):
                return
            if iterator is not None:
                for _, _, batches in iterator:
                    data_batch = tensorflow.nest.map_structure(_of_a_replica, next(batches))
                    break
            model._symbolic_build(data_batch=data_batch)

    return build


def _build_by_kind(tensorflow: Any, model: Model, iterator: Any) -> bool:
    """Build a model by what is known of its batches: their shapes and types. Returns whether that was enough."""
    try:
        spec = tensorflow.nest.map_structure(_of_a_replica, iterator._distributed_dataset.element_spec)
        model._symbolic_build(data_batch=spec)
    except Exception:  # a rank that is not known, a ragged tensor: then a batch has to show
        return False
    return True


def _of_a_replica(value: Any) -> Any:
    """The first replica's of a batch, or of what is known of one."""
    return getattr(value, "_value_specs", getattr(value, "values", (value,)))[0]


def build_optimizers(keras: Any, model: Model) -> None:
    """Make the variables of a composed model's optimizers. Raises Refused where it is not to be seen what they are for."""
    found = {name: one for name, one in vars(model).items() if isinstance(one, keras.optimizers.Optimizer)}
    if len(found) > 1:
        found.pop("optimizer", None)  # Keras makes one for a model that compiles itself without
        found.pop("_optimizer", None)
    optimizers = {
        id(one): (name, one) for name, one in found.items() if not getattr(one, "built", getattr(one, "_built", False))
    }
    parts = {name: one for name, one in vars(model).items() if isinstance(one, keras.layers.Layer)}
    for name, optimizer in optimizers.values():
        if len(optimizers) == 1 and model.trainable_variables:
            optimizer.build(model.trainable_variables)
            continue
        own = _named_alike(name, parts)
        if own is None or not own.built:
            raise Refused(
                f"{type(model).__name__} is made of other models, and it is not to be seen which of them {name} steps",
                f"say so before fit: model.{name}.build(model.GENERATOR.trainable_variables)",
            )
        optimizer.build(own.trainable_variables)


def _named_alike(name: str, parts: Dict[str, Any]) -> Any:
    """The one part whose name begins, or ends, as the optimizer's does: d_optimizer and discriminator, optimizer_G and netG."""
    match = _OPTIMIZER.fullmatch(name.strip("_"))
    stem = (match[1] or match[2] or "").lower() if match else ""
    for is_alike in (str.__eq__, str.startswith, str.endswith):
        found = [one for part, one in parts.items() if stem and is_alike(part.lower().strip("_"), stem)]
        if found:
            return found[0] if len(found) == 1 else None
    return None
