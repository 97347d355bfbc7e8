import pytest

from stoker.hardware.choosing.speed import (
    BANDWIDTH_SHARE,
    COMPUTE_SHARE,
    LAUNCH_SECONDS,
    Rates,
    cpu_rates,
    rates_of,
    relative_speed,
    step_seconds,
    work_of,
)
from stoker.hardware.choosing.training_memory import estimate
from stoker.hardware.choosing.workload import ModelKind, Precision, Workload
from stoker.hardware.gpus import gpus

A100 = gpus()["a100-40"]


def a_work(**changes):
    work = Workload(**{"parameters": 100e6, "kind": ModelKind.DENSE, "hidden": 1000, "layers": 100, **changes})
    return work_of(work, estimate(work))


def test_a_large_batch_computes_and_a_small_one_moves():
    rates = Rates(tflops=100, gb_s=1000, precision="fp32")
    large = step_seconds(a_work(batch=100_000), 100_000, rates)
    assert large == pytest.approx(6 * 100e6 * 100_000 / (COMPUTE_SHARE * 100e12) + LAUNCH_SECONDS)
    small = a_work(batch=1)
    moved = small.step_bytes + small.moved_bytes
    assert step_seconds(small, 1, rates) == pytest.approx(moved / (BANDWIDTH_SHARE * 1000e9) + LAUNCH_SECONDS)
    twice = Rates(tflops=200, gb_s=1000, precision="fp32")
    assert step_seconds(small, 1, twice) == step_seconds(small, 1, rates), "more compute brings a small batch nothing"


def test_resnet_50_by_what_is_known_of_it():
    """24.5 GFLOP for an image, forward and backward: 4.1 billion multiplications with additions."""
    found = a_work(parameters=25.6e6, kind=ModelKind.CONVOLUTIONAL)
    assert found.flops == pytest.approx(24.5e9, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "precision", "tflops", "in_what"),
    [
        ("a100-40", Precision.FP32, 19.5, "fp32"),
        ("a100-40", Precision.TF32, 156, "tf32"),
        ("a100-40", Precision.BF16, 312, "bf16"),
        ("a100-40", Precision.PURE_BF16, 312, "bf16"),
        ("t4", Precision.FP16, 65, "fp16"),
        ("t4", Precision.BF16, 8.1, "fp32"),
        ("t4", Precision.TF32, 8.1, "fp32"),
        ("tpu-v3", Precision.FP32, 123, "bf16"),
    ],
)
def test_what_a_chip_does_in_a_precision_that_it_may_not_have(gpu, precision, tflops, in_what):
    found = rates_of(gpus()[gpu], precision)
    assert found is not None and (found.tflops, found.precision) == (tflops, in_what)


def test_every_gpu_of_the_catalog_has_a_speed():
    assert all(rates_of(chip, precision) for chip in gpus().values() for precision in Precision)


def test_several_devices_divide_a_batch_and_lose_a_little():
    rates, work = rates_of(A100, Precision.FP32), a_work(batch=8000)
    one, four = (step_seconds(work, 8000, rates, devices) - LAUNCH_SECONDS for devices in (1, 4))
    assert 3 < one / four < 4
    assert 3 < relative_speed(rates, 4) / relative_speed(rates) < 4


def test_processors_have_little_of_anything_which_a_tiny_model_does_not_feel():
    rates = cpu_rates(4)
    assert rates.is_cpu and rates.precision == "fp32"
    tiny = a_work(parameters=1000, hidden=30, layers=1)
    assert step_seconds(tiny, 1, rates) < 1.01 * step_seconds(tiny, 1, rates_of(A100, Precision.FP32))
    assert relative_speed(rates) < relative_speed(rates_of(gpus()["k80"], Precision.FP32))
