"""A training as far as its memory and its speed follow from it: the model's size and shape, the batch, how it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class ModelKind(StrEnum):
    """How a model is built, as far as its activations follow from it."""

    TRANSFORMER = "transformer"
    CONVOLUTIONAL = "convolutional"
    RECURRENT = "recurrent"  # LSTM
    DENSE = "dense"  # layers that are connected fully: an MLP


class Precision(StrEnum):
    """What numbers a training computes with. bf16 and fp16 keep weights and optimizer in fp32 (mixed precision)."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    PURE_BF16 = "pure-bf16"  # weights, gradients and optimizer, too


class Framework(StrEnum):
    """What trains: frameworks keep different things beside each other."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"


OPTIMIZER_STATES: Mapping[str, int] = MappingProxyType(
    {"sgd": 0, "adafactor": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "lion": 1, "adam": 2, "adamw": 2}
)
"""How many numbers an optimizer keeps for each parameter. Adafactor keeps sums of rows and columns: next to none."""

WEIGHTS_OF_A_LAYER = 12
"""Times the width squared, a transformer's layer: 4 for attention, 8 for the two matrices of four times the width."""

_USUAL_ASPECT = 64.0  # width of a transformer for each of its layers: GPT-2 small has 64, GPT-3 has 128
_USUAL_SEQUENCE = 256.0  # BERT is trained with 128 and 512, ViT-L/16 with 197
_USUAL_IMAGE = 224.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One training. Of what is 0 nobody has said anything."""

    parameters: float
    batch: int = 1  # examples of a step, of all devices together
    precision: Precision = Precision.FP32
    optimizer: str = "adamw"
    kind: ModelKind = ModelKind.TRANSFORMER
    framework: Framework = Framework.TORCH
    sequence: int = 0  # positions of an example: tokens, patches, moments
    hidden: int = 0  # width
    layers: int = 0
    heads: int = 0  # of attention whose scores are kept, without a fused kernel; 0: fused
    vocabulary: int = 0  # of the last layer, which tells a probability for each
    image: int = 0  # pixels of a side
    activations: float = 0.0  # values that an example leaves for the backward pass
    checkpointing: bool = False  # activations are worked out anew in the backward pass

    @property
    def weight_bytes(self) -> int:
        """Of a parameter as it is kept."""
        return 2 if self.precision is Precision.PURE_BF16 else 4

    @property
    def value_bytes(self) -> int:
        """Of a value that is computed."""
        return 4 if self.precision in (Precision.FP32, Precision.TF32) else 2

    @property
    def is_mixed(self) -> bool:
        """Whether it computes with copies of its weights."""
        return self.precision in (Precision.BF16, Precision.FP16)

    @property
    def width(self) -> float:
        """As it was said, or as follows from the size, by the usual proportions."""
        if self.hidden:
            return float(self.hidden)
        if self.layers:
            return float((self.parameters / self._weights_of_a_layer / self.layers) ** 0.5)
        return max(1.0, _USUAL_ASPECT * self.depth)

    @property
    def depth(self) -> float:
        """How many layers, as it was said or follows."""
        if self.layers:
            return float(self.layers)
        if self.hidden:
            return float(max(1.0, self.parameters / self._weights_of_a_layer / self.hidden**2))
        return float(max(1.0, (self.parameters / self._weights_of_a_layer / _USUAL_ASPECT**2) ** (1 / 3)))

    @property
    def positions(self) -> float:
        """How many positions an example has; 1 for a model that has none."""
        if self.kind is ModelKind.DENSE:
            return 1.0
        return float(self.sequence) or _USUAL_SEQUENCE

    @property
    def image_share(self) -> float:
        """How many times the pixels of the usual image an image has."""
        return (self.image / _USUAL_IMAGE) ** 2 if self.image else 1.0

    @property
    def _weights_of_a_layer(self) -> float:
        return {ModelKind.TRANSFORMER: WEIGHTS_OF_A_LAYER, ModelKind.RECURRENT: 8}.get(self.kind, 1)
