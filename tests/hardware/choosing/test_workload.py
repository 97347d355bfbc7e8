import pytest

from stoker.hardware.choosing.workload import ModelKind, Precision, Workload


def test_the_shape_of_gpt_2_follows_from_its_size():
    """Without its embeddings it has 85 million weights: 12 layers of 768."""
    found = Workload(parameters=85e6)
    assert found.depth == pytest.approx(12, rel=0.01) and found.width == pytest.approx(768, rel=0.01)


def test_what_is_said_of_the_shape_leads_to_the_rest():
    assert Workload(parameters=85e6, hidden=768).depth == pytest.approx(12, rel=0.01)
    assert Workload(parameters=85e6, layers=12).width == pytest.approx(768, rel=0.01)
    said = Workload(parameters=1, hidden=5, layers=7)
    assert (said.width, said.depth) == (5, 7)


def test_positions():
    assert Workload(parameters=1, sequence=12).positions == 12
    assert Workload(parameters=1, kind=ModelKind.DENSE, sequence=12).positions == 1
    assert Workload(parameters=1).positions > 1, "assumed"


def test_bytes_of_numbers():
    found = {
        p: (Workload(parameters=1, precision=p).weight_bytes, Workload(parameters=1, precision=p).value_bytes)
        for p in Precision
    }
    assert found == {
        Precision.FP32: (4, 4),
        Precision.TF32: (4, 4),
        Precision.BF16: (4, 2),
        Precision.FP16: (4, 2),
        Precision.PURE_BF16: (2, 2),
    }


def test_images():
    assert Workload(parameters=1, image=448).image_share == 4 and Workload(parameters=1).image_share == 1
