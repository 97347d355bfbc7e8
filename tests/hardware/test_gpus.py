import dataclasses

import pytest

from stoker.hardware.gpus import Gpu, gpus
from tests.hardware.builders import table


def test_the_t4_by_its_datasheet():
    t4 = gpus()["t4"]
    assert (t4.memory_gb, t4.bandwidth_gb_s, t4.fp32_tflops, t4.fp16_tflops, t4.tdp_w) == (16, 320, 8.1, 65, 70)
    assert (t4.bf16_tflops, t4.mig, t4.mig_max_slices) == (None, False, None)


def test_the_a100_can_be_sliced():
    assert (gpus()["a100-40"].mig, gpus()["a100-40"].mig_max_slices) == (True, 7)


@pytest.mark.parametrize("row", table("gpus.csv"), ids=lambda row: row["gpu_id"])
def test_every_cell_of_every_row_is_kept(row):
    gpu = gpus()[row["gpu_id"]]
    for field in dataclasses.fields(Gpu):
        value, cell = getattr(gpu, field.name), row[field.name]
        if isinstance(value, bool):
            assert value == (cell == "yes"), field.name
        elif isinstance(value, float):
            assert value == float(cell), field.name
        else:
            assert (value or "") == cell, field.name


def test_all_rows_in_their_order_since_the_first_of_a_family_is_the_one_a_cloud_attaches():
    assert list(gpus()) == [row["gpu_id"] for row in table("gpus.csv")]
