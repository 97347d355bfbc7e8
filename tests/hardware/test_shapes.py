from stoker.hardware.rules import check
from stoker.hardware.shapes import accelerators_of, needs_tpu
from tests.hardware.builders import ask, chief


def shapes_of(tier, *requests):
    shapes, faults = check(tier, requests, "us-central1")
    assert faults == ()
    return shapes


def test_the_accelerators_of_a_job_each_once():
    shapes = shapes_of(
        "CUSTOM",
        chief("n1-standard-8", "T4", 2),
        ask("worker", 3, "n1-standard-8", "t4", 2),
        ask("ps", 1, "n1-standard-4"),
        ask("evaluator", 1, "n1-standard-8", "V100", 1),
    )
    assert accelerators_of(shapes) == ("NVIDIA_TESLA_T4", "NVIDIA_TESLA_V100")


def test_only_a_tpu_needs_a_tpu():
    assert needs_tpu(shapes_of("BASIC_TPU"))
    assert needs_tpu(shapes_of("CUSTOM", chief("n1-highcpu-16"), ask("worker", 1, "cloud_tpu", "TPU_V3", 8)))
    assert needs_tpu(shapes_of("CUSTOM", chief("ct5lp-hightpu-4t")))
    assert not needs_tpu(shapes_of("BASIC_GPU"))
    assert not needs_tpu(shapes_of("BASIC"))
