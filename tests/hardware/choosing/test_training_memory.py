from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.hardware.choosing.training_memory import CONTEXT_BYTES, estimate
from stoker.hardware.choosing.workload import OPTIMIZER_STATES, Framework, ModelKind, Precision, Workload

MILLION = 1e6
GPT2 = Workload(parameters=124 * MILLION, batch=8, sequence=1024, hidden=768, layers=12, vocabulary=50257)


def test_what_a_parameter_takes():
    """Adam in fp32: 4 bytes of weight, 4 of gradient, 8 of its two moments; mixed precision adds a copy of 2."""
    plain = estimate(Workload(parameters=100 * MILLION, kind=ModelKind.DENSE))
    assert [plain.part(name) for name in ("weights", "gradients", "optimizer", "copies")] == [4e8, 4e8, 8e8, 0]
    mixed = estimate(Workload(parameters=100 * MILLION, kind=ModelKind.DENSE, precision=Precision.BF16))
    assert [mixed.part(name) for name in ("weights", "gradients", "optimizer", "copies")] == [4e8, 4e8, 8e8, 2e8]
    pure = estimate(Workload(parameters=100 * MILLION, kind=ModelKind.DENSE, precision=Precision.PURE_BF16))
    assert [pure.part(name) for name in ("weights", "gradients", "optimizer", "copies")] == [2e8, 2e8, 4e8, 0]


@pytest.mark.parametrize(("optimizer", "states"), OPTIMIZER_STATES.items())
def test_what_optimizers_keep(optimizer, states):
    found = estimate(Workload(parameters=MILLION, optimizer=optimizer, kind=ModelKind.DENSE))
    assert found.part("optimizer") == 4 * states * MILLION


def test_a_layer_of_a_transformer_in_fp32_by_hand():
    """17 values of a position and width; the published 34 bytes of 16 bits count its masks of dropout and no copies."""
    found = estimate(Workload(parameters=12 * 768**2, batch=2, sequence=128, hidden=768, layers=1))
    assert found.part("activations") == 2 * 128 * 768 * 17 * 4
    kept = estimate(Workload(parameters=12 * 768**2, batch=2, sequence=128, hidden=768, layers=1, heads=12))
    assert kept.part("activations") - found.part("activations") == 2 * 12 * 128**2 * 4, "the probabilities of attention"


def test_the_logits_of_a_language_model_are_counted():
    without, with_them = estimate(replace(GPT2, vocabulary=0)), estimate(GPT2)
    assert with_them.part("at_once") == 8 * 1024 * 50257 * 16
    assert with_them.expected_bytes > without.expected_bytes + 5e9


def test_the_peak_is_of_what_is_there_at_one_time():
    """A small batch: at the update. A large one: when the backward pass begins."""
    small = Workload(parameters=100 * MILLION, optimizer="sgd", kind=ModelKind.DENSE, hidden=1000, layers=100)
    assert estimate(small, is_gpu=False).expected_bytes == pytest.approx(8e8)
    large = replace(small, batch=10_000)
    assert estimate(large, is_gpu=False).expected_bytes == pytest.approx(4e8 + 10_000 * 100 * 1000 * 4)


def test_data_parallel_training_divides_activations_alone():
    one, four = estimate(GPT2), estimate(GPT2, devices=4)
    assert four.part("activations") == one.part("activations") / 4
    for name in ("weights", "optimizer", "gradients"):
        assert four.part(name) == one.part(name)


def test_checkpointing_keeps_the_inputs_of_layers():
    assert estimate(replace(GPT2, checkpointing=True)).part("activations") < estimate(GPT2).part("activations") / 5


def test_jax_holds_new_weights_beside_the_old():
    work = Workload(parameters=100 * MILLION, batch=8, kind=ModelKind.DENSE, hidden=1000, layers=100)
    torch, jax = (estimate(replace(work, framework=f), is_gpu=False) for f in (Framework.TORCH, Framework.JAX))
    assert jax.expected_bytes == torch.expected_bytes + 12 * work.parameters


def test_jax_keeps_more_of_a_layer_than_pytorch():
    torch, jax = (estimate(replace(GPT2, heads=12, framework=f)) for f in (Framework.TORCH, Framework.JAX))
    assert jax.part("activations") == 2 * torch.part("activations")


def test_what_is_there_for_a_moment():
    """An LSTM's gates at all moments of one layer, and their gradients; a convolution's largest layer."""
    lstm = Workload(parameters=MILLION, batch=2, kind=ModelKind.RECURRENT, sequence=10, hidden=100, layers=3)
    assert estimate(lstm).part("activations") == 2 * 10 * 100 * 3 * 8 * 4
    assert estimate(lstm).part("at_once") == 2 * 10 * 100 * 8 * 4
    photos = Workload(parameters=MILLION, batch=2, kind=ModelKind.CONVOLUTIONAL, activations=8e6)
    assert (estimate(photos).part("activations"), estimate(photos).part("at_once")) == (64e6, 8e6)


def test_a_gpu_has_a_context_and_a_cpu_none():
    assert estimate(GPT2).part("context") == CONTEXT_BYTES and not estimate(GPT2, is_gpu=False).part("context")


def test_what_nobody_has_said_is_told_and_makes_the_range_wide():
    bare = estimate(Workload(parameters=350 * MILLION, batch=64))
    assert any("--sequence" in words for words in bare.assumptions)
    assert bare.high_bytes > 3 * bare.expected_bytes
    known = estimate(GPT2)
    assert not any("--sequence" in words or "proportions" in words for words in known.assumptions)
    assert known.high_bytes < 1.6 * known.expected_bytes
    photos = estimate(Workload(parameters=25.6 * MILLION, batch=32, kind=ModelKind.CONVOLUTIONAL))
    assert any("ResNet-50" in words for words in photos.assumptions)
    counted = Workload(parameters=25.6 * MILLION, batch=32, kind=ModelKind.CONVOLUTIONAL, activations=1e6)
    assert estimate(counted).part("activations") == 32e6 * 4


@given(
    st.builds(
        Workload,
        parameters=st.floats(1, 1e13),
        batch=st.integers(1, 10_000),
        precision=st.sampled_from(Precision),
        optimizer=st.sampled_from(sorted(OPTIMIZER_STATES)),
        kind=st.sampled_from(ModelKind),
        framework=st.sampled_from(Framework),
        sequence=st.sampled_from([0, 1, 4096]),
        hidden=st.sampled_from([0, 64, 8192]),
        layers=st.sampled_from([0, 1, 200]),
        heads=st.sampled_from([0, 16]),
        vocabulary=st.sampled_from([0, 50257]),
        checkpointing=st.booleans(),
    ),
    st.booleans(),
)
def test_it_is_always_within_its_range_and_grows_with_the_batch(work, is_gpu):
    found = estimate(work, is_gpu=is_gpu)
    assert 0 < found.low_bytes <= found.expected_bytes * 1.000001 <= found.high_bytes * 1.000002
    assert all(term.bytes > 0 and term.text for term in found.terms)
    assert estimate(replace(work, batch=2 * work.batch), is_gpu=is_gpu).expected_bytes >= found.expected_bytes
