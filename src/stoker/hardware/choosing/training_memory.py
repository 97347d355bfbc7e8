"""How much memory a training takes at its peak, worked out term by term.

Weights and what the optimizer keeps are there all the time. On top of them come, one after the other, the activations (at the
beginning of the backward pass) and the gradients (at the update): as the backward pass frees the ones, it makes the others. So
the peak is that of the larger; where a program keeps its gradients through the forward pass, it is their sum, which is the upper
end of the range. The formulas follow from what backward passes need; benchmarks/memory_estimates.py holds them
against real models.
"""

from __future__ import annotations

from dataclasses import dataclass

from .workload import OPTIMIZER_STATES, Framework, ModelKind, Precision, Workload

CONTEXT_BYTES = 0.6e9
"""Of a process on a GPU: the driver's context, and the libraries' kernels and work space."""

_CONTEXT_LOW, _CONTEXT_HIGH = 0.3e9, 1.2e9
_FRAGMENTS, _FRAGMENTS_HIGH = 1.05, 1.2  # what an allocator cannot use, times all that is used

# Of a transformer's layer and position, in widths: both inputs and outputs of layer norms (4), query, key, value (3), what
# attention gives, and that in the order of the next matrix (2), before and after the activation of four times the width (8).
_VALUES_OF_A_LAYER = 17.0
_BYTES_OF_A_MIXED_LAYER = 38.0  # norms compute in fp32: of their 4, two of 4 bytes and two of 2; the others of 2
# JAX keeps what each operation of a block needs, and XLA little less (counted by jax.ad_checkpoint.print_saved_residuals):
# 7 of a width, query, key, value, and 6 of four widths, most of them of the activation; and of the scores two.
_VALUES_OF_A_JAX_LAYER = 34.0
_LSTM_VALUES = 8.0  # four gates, the cell's state and its tanh, the output, the input of the next
_USUAL_IMAGE_VALUES = 22e6  # ResNet-50 on 224 x 224: 11 million outputs of convolutions, and once more after the norms
_SCORES_KEPT = 1.0  # probabilities of attention; JAX keeps their exponentials, too
_SCORES_AT_ONCE = 2.0  # and of one layer, at the peak, the scores and their gradient
_LSTM_AT_ONCE = 8.0  # of one layer: what goes into the four gates at all moments, and its gradient
_CONVOLUTION_AT_ONCE = 1 / 8  # of the activations: both gradients of the largest layer, which is an early one
_LOGITS = 4.0  # logits, their log-probabilities, the gradients of both
_UNKNOWN_SEQUENCE, _UNKNOWN_IMAGE, _UNKNOWN_SHAPE, _KNOWN = 4.0, 2.5, 1.5, 1.15  # times more or less than the formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A part of the memory, and what it is."""

    name: str
    bytes: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The memory of one device, with the range in which it will be, and what was assumed."""

    terms: tuple[Term, ...]
    low_bytes: float
    expected_bytes: float
    high_bytes: float
    assumptions: tuple[str, ...]
    peak: str  # which of the terms are there at one time

    def part(self, name: str) -> float:
        """How large a term is; 0: there is none."""
        return sum(term.bytes for term in self.terms if term.name == name)


def estimate(work: Workload, *, devices: int = 1, is_gpu: bool = True) -> Estimate:
    """The peak on each device. `devices`: the batch is divided among them, the model is on each as a whole.

    `is_gpu`: with the context of a GPU, and optimizers that update all weights at once, as they do there.
    """
    count, batch = work.parameters, -(-work.batch // devices)
    weights = count * work.weight_bytes
    states = _states_of(work)
    optimizer = count * work.weight_bytes * states
    copies = 2.0 * count if work.is_mixed else 0.0
    kept, assumptions, unsure = _activations(work, batch)
    at_once = _transients(work, batch)
    in_update = _in_update(work, is_gpu=is_gpu)
    context = CONTEXT_BYTES if is_gpu else 0.0
    backward, update = copies + kept + at_once, weights + (in_update if work.framework is not Framework.JAX else 0.0)
    doubled = weights + optimizer if work.framework is Framework.JAX else 0.0
    always = weights + optimizer
    terms = (
        Term(name="weights", bytes=weights, text=f"{work.weight_bytes} bytes each"),
        Term(name="optimizer", bytes=optimizer, text=f"{work.optimizer} keeps {states} numbers for each weight"),
        Term(name="gradients", bytes=weights, text="as large as the weights"),
        Term(name="copies", bytes=copies, text=f"of the weights in {work.precision}, to compute with"),
        Term(name="activations", bytes=kept, text=f"what {batch:,} examples leave for the backward pass"),
        Term(name="at_once", bytes=at_once, text="of the last layer and of one layer's backward pass, for a moment"),
        Term(name="update", bytes=max(doubled, in_update), text=_UPDATE_WORDS[work.framework]),
        Term(name="context", bytes=context, text="the driver's and the libraries'"),
    )
    peak = always + max(backward, update) + doubled
    low = always + max(copies + kept / unsure, weights)
    high = always + copies + kept * unsure + at_once + weights + max(doubled, in_update)
    return Estimate(
        terms=tuple(term for term in terms if term.bytes),
        low_bytes=low + (_CONTEXT_LOW if is_gpu else 0.0),
        expected_bytes=peak * (_FRAGMENTS if is_gpu else 1.0) + context,
        high_bytes=high * _FRAGMENTS_HIGH + (_CONTEXT_HIGH if is_gpu else 0.0),
        assumptions=(*assumptions, *_words_on(work, states)),
        peak=_PEAK_OF_JAX if work.framework is Framework.JAX else _PEAK,
    )


_PEAK = "weights and optimizer, and the larger of copies + activations + at_once and of gradients + update"
_PEAK_OF_JAX = "weights, optimizer and update, and the larger of copies + activations + at_once and of gradients"


_UPDATE_WORDS = {
    Framework.TORCH: "what the optimizer works out for all weights at once",
    Framework.TENSORFLOW: "what the optimizer works out",
    Framework.JAX: "new weights and optimizer beside the old ones; donate_argnums saves it",
}


def _states_of(work: Workload) -> int:
    return OPTIMIZER_STATES[work.optimizer]


def _in_update(work: Workload, *, is_gpu: bool) -> float:
    """On a GPU, PyTorch's Adam and AdamW take all weights at once, and hold one more number for each meanwhile."""
    if work.framework is Framework.TORCH and is_gpu and _states_of(work) == 2:
        return work.parameters * work.weight_bytes
    return 0.0


def _activations(work: Workload, batch: int) -> tuple[float, list[str], float]:
    """What a batch leaves for the backward pass, what was assumed, and how many times more or less it may be."""
    if work.activations:
        return batch * work.activations * work.value_bytes, [], _KNOWN
    if work.kind is ModelKind.CONVOLUTIONAL:
        side = work.image or 224
        words = [
            f"a convolutional model leaves {_USUAL_IMAGE_VALUES * work.image_share / 1e6:.3g} million values of each image of"
            f" {side} x {side}, as ResNet-50 does; --activations says it better"
        ]
        return batch * _USUAL_IMAGE_VALUES * work.image_share * work.value_bytes, words, _UNKNOWN_IMAGE
    assumed, unsure = _shape_words(work)
    if work.kind is ModelKind.DENSE:
        return batch * work.depth * work.width * work.value_bytes, assumed, unsure
    moments = batch * work.positions
    if work.kind is ModelKind.RECURRENT:
        return moments * work.depth * work.width * _LSTM_VALUES * work.value_bytes, assumed, unsure
    return moments * _of_a_position(work), assumed, unsure


def _of_a_position(work: Workload) -> float:
    """What a position of a transformer leaves, in bytes."""
    is_jax = work.framework is Framework.JAX
    scores = work.heads * work.positions * _SCORES_KEPT * (2 if is_jax else 1) * work.value_bytes
    values = _VALUES_OF_A_JAX_LAYER if is_jax else _VALUES_OF_A_LAYER
    is_cast = work.is_mixed and not is_jax
    layer = work.width * (_BYTES_OF_A_MIXED_LAYER if is_cast else values * work.value_bytes) + scores
    if work.checkpointing:  # the input of each layer, and all of one
        return work.depth * work.width * work.value_bytes + layer
    return work.depth * layer


def _transients(work: Workload, batch: int) -> float:
    """What is there for a moment when the backward pass begins."""
    moments = batch * work.positions
    logits = moments * work.vocabulary * (_LOGITS * 4.0 - (2.0 if work.is_mixed else 0.0))
    if work.kind is ModelKind.CONVOLUTIONAL:
        return logits + _activations(work, batch)[0] * _CONVOLUTION_AT_ONCE
    if work.kind is ModelKind.RECURRENT and not work.activations:
        return logits + moments * work.width * _LSTM_AT_ONCE * work.value_bytes
    if work.kind is not ModelKind.TRANSFORMER or work.activations:
        return logits
    scores = moments * work.heads * work.positions * _SCORES_AT_ONCE * 4.0
    return max(logits, scores, 8.0 * moments * work.width * work.value_bytes)  # gradients of the wide part of a layer


def _shape_words(work: Workload) -> tuple[list[str], float]:
    words, unsure = [], _KNOWN
    if not (work.hidden and work.layers):
        words.append(f"about {work.depth:.3g} layers of width {work.width:.4g}, by the usual proportions")
        unsure = _UNKNOWN_SHAPE
    if not work.sequence and work.kind is not ModelKind.DENSE:
        words.append(f"a {work.kind} of {work.positions:g} positions an example; --sequence says it better")
        unsure = _UNKNOWN_SEQUENCE
    return words, unsure


def _words_on(work: Workload, states: int) -> list[str]:
    words = []
    if work.kind is ModelKind.TRANSFORMER and not work.activations:
        if not work.heads:
            words.append("attention by a fused kernel; give --heads where its scores are kept")
        if not work.vocabulary:
            words.append("no large last layer; give --vocabulary of a language model")
    if work.checkpointing and work.kind is not ModelKind.TRANSFORMER:
        words.append(f"nothing is known of gradient checkpointing of a {work.kind} model: it is left out")
    if work.precision is Precision.PURE_BF16 and states:
        words.append("the optimizer's numbers are in bf16, too")
    return words
