"""What Keras and TensorFlow train in a loop of the program's own: whatever has `variables`, each with an `assign`.

Keras makes variables when a model first sees data. Those that are not there yet cannot be filled, so they are asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Dict, List

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.messages import Refused

from .part import Write, another_program

_BUILD = "build the model and its optimizer before the first loop (model.build(…), optimizer.build(model.trainable_variables))"


class VariableParts:
    """Models, layers, optimizers, modules and variables, by name."""

    def __init__(self, values: Dict[str, Any], rank: int) -> None:
        self._numpy: Any = import_module("numpy")
        self._values = values
        self.kinds = dict.fromkeys(values, "variables of Keras or TensorFlow")
        self._rank = rank
        for name, value in values.items():
            if getattr(value, "built", True) is False or not variables_of(value):
                raise Refused(f"{name} has not all of its variables yet, so that they could not be put back", _BUILD)

    def stage(self, draft: str) -> Write:
        """A copy on the processors, of the chief's."""
        if self._rank:
            return lambda: None
        arrays: Dict[str, Any] = {}
        for name, value in self._values.items():
            for number, variable in enumerate(variables_of(value)):
                # As bytes: files of numpy know no bfloat16.
                array = self._numpy.array(self._read(variable))
                arrays[f"{name}/{number}"] = self._numpy.frombuffer(array.tobytes(), self._numpy.uint8)
                arrays[f"{name}/{number}/shape"] = self._numpy.array(array.shape, "int64")

        def write() -> None:
            self._numpy.savez(os.path.join(draft, "variables.npz"), **arrays)

        return write

    def restore(self, found: Checkpoint) -> None:
        """The variables are assigned what was saved."""
        with self._numpy.load(found.path("variables.npz")) as arrays:
            count = sum(len(variables_of(value)) for value in self._values.values())
            if 2 * count < len(arrays):
                raise Refused(
                    f"the checkpoint of step {found.step} has {len(arrays) // 2} variables, and the program {count} so far",
                    _BUILD,
                )
            if 2 * count != len(arrays):
                raise another_program(found, f"it has {len(arrays) // 2} variables, the program {count}")
            for name, value in self._values.items():
                for number, variable in enumerate(variables_of(value)):
                    self._assign(found, variable, f"{name}/{number}", arrays)

    def _assign(self, found: Checkpoint, variable: Any, key: str, arrays: Any) -> None:
        ours = self._numpy.asarray(self._read(variable))
        its_name = getattr(variable, "path", getattr(variable, "name", key))
        shape = tuple(arrays[f"{key}/shape"]) if f"{key}/shape" in arrays else None
        if shape != ours.shape or arrays[key].nbytes != ours.nbytes:
            raise another_program(found, f"its {its_name} is {shape}, the program's {ours.shape}")
        variable.assign(self._numpy.frombuffer(arrays[key].tobytes(), ours.dtype).reshape(shape))

    def _read(self, variable: Any) -> Any:
        return variable.numpy() if hasattr(variable, "numpy") else variable


def is_trained(value: Any) -> bool:
    """Whether it is one of these, built or not."""
    return bool(variables_of(value)) or (hasattr(value, "variables") and hasattr(value, "name"))


def variables_of(value: Any) -> List[Any]:
    """The variables of an object; of one that is a variable, itself. Empty: it has none."""
    if callable(getattr(value, "assign", None)) and hasattr(value, "shape"):
        return [value]
    found = getattr(value, "variables", None)
    if callable(found):  # of optimizers of tf_keras, it is a method
        found = found()
    if not isinstance(found, (list, tuple)):
        return []
    return [variable for variable in found if callable(getattr(variable, "assign", None))]
