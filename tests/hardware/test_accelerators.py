import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.hardware.accelerators import accelerators, canonical_name, device_strings, find_accelerator
from tests.hardware.builders import table


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # as the API, the flags and people write them
        ("NVIDIA_TESLA_T4", "NVIDIA_TESLA_T4"),
        ("nvidia-tesla-t4", "NVIDIA_TESLA_T4"),
        ("T4", "NVIDIA_TESLA_T4"),
        ("t4", "NVIDIA_TESLA_T4"),
        (" t4 ", "NVIDIA_TESLA_T4"),
        ("K80", "NVIDIA_TESLA_K80"),
        ("P4", "NVIDIA_TESLA_P4"),
        ("P100", "NVIDIA_TESLA_P100"),
        ("V100", "NVIDIA_TESLA_V100"),
        ("A100", "NVIDIA_TESLA_A100"),
        ("a100-80gb", "NVIDIA_A100_80GB"),
        ("nvidia-h100-80gb", "NVIDIA_H100_80GB"),
        ("nvidia-h100-mega-80gb", "NVIDIA_H100_MEGA_80GB"),
        ("H100", "NVIDIA_H100_80GB"),
        ("H200", "NVIDIA_H200_141GB"),
        ("B200", "NVIDIA_B200"),
        ("L4", "NVIDIA_L4"),
        ("4090", "NVIDIA_RTX_4090"),
        ("A6000", "NVIDIA_RTX_A6000"),
        ("V100-32GB", "NVIDIA_V100_32"),
        ("TPU_V2", "TPU_V2"),
        ("tpu-v3", "TPU_V3"),
        ("tpu-v3-pod", "TPU_V3_POD"),
        # as drivers print them
        ("Tesla K80", "NVIDIA_TESLA_K80"),
        ("Tesla P100-PCIE-16GB", "NVIDIA_TESLA_P100"),
        ("Tesla P100-SXM2-16GB", "NVIDIA_P100_SXM2"),
        ("Tesla T4", "NVIDIA_TESLA_T4"),
        ("Tesla V100-SXM2-16GB", "NVIDIA_TESLA_V100"),
        ("Tesla V100-SXM2-32GB", "NVIDIA_V100_32"),
        ("Tesla V100-PCIE-16GB", "NVIDIA_V100_PCIE"),
        ("Tesla V100-PCIE-32GB", "NVIDIA_V100_PCIE"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA_TESLA_A100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA_TESLA_A100"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA_A100_40_PCIE"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA_A100_80GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA_A100_80_PCIE"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA_H100_80GB"),
        ("NVIDIA H100 PCIe", "NVIDIA_H100_PCIE"),
        ("NVIDIA H100 NVL", "NVIDIA_H100_NVL"),
        ("NVIDIA H200", "NVIDIA_H200_141GB"),
        ("NVIDIA GH200 480GB", "NVIDIA_GH200_96"),
        ("NVIDIA B200", "NVIDIA_B200"),
        ("NVIDIA B300 SXM6 AC", "NVIDIA_B300"),
        ("NVIDIA GB300", "NVIDIA_GB300"),
        ("NVIDIA L40S", "NVIDIA_L40S"),
        ("NVIDIA L40", "NVIDIA_L40"),
        ("NVIDIA A10G", "NVIDIA_A10G"),
        ("NVIDIA A10", "NVIDIA_A10"),
        ("NVIDIA RTX A6000", "NVIDIA_RTX_A6000"),
        ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA_RTX_2080_TI"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA_RTX_3090"),
        ("NVIDIA TITAN RTX", "NVIDIA_TITAN_RTX"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA_RTX_PRO_6000"),
        ("AMD Instinct MI300X", "AMD_MI300X"),
        ("Intel Gaudi 3", "INTEL_GAUDI3"),
    ],
)
def test_names(text, name):
    for spelling in (text, text.lower(), text.upper()):
        found = find_accelerator(spelling)
        assert found is not None and found.name == name, spelling


@pytest.mark.parametrize(
    "text",
    ["", "GPU", "NVIDIA", "T400", "A1000", "RTX 3090 Ti", "RTX 4090 Laptop GPU", "A100 96GB", "A100X", "H100 SXM 94GB"],
)
def test_what_resembles_a_known_card_is_not_taken_for_it(text):
    assert find_accelerator(text) is None


@pytest.mark.parametrize("name", list(accelerators()))
def test_an_accelerator_is_found_by_each_of_its_own_names(name):
    accelerator = accelerators()[name]
    names = [name, accelerator.gce_name or name, canonical_name(accelerator.gce_name) or name]
    assert [find_accelerator(text) for text in names] == [accelerator] * 3


def test_canonical_names_agree_with_the_compatibility_table():
    pairs = {(row["gce_accelerator"], row["accelerator_type"]) for row in table("accelerator_counts.csv")}
    assert {(gce_name, canonical_name(gce_name)) for gce_name, _ in pairs} == pairs
    assert canonical_name("") == ""


def test_every_chip_is_an_accelerator_and_the_cloud_attaches_the_first_of_a_family():
    chips = {a.chip.gpu_id for a in accelerators().values() if a.chip is not None}
    assert chips == {row["gpu_id"] for row in table("gpus.csv")}
    assert accelerators()["NVIDIA_TESLA_A100"].chip.gpu_id == "a100-40"
    assert accelerators()["NVIDIA_RTX_3090"].gce_name == ""


def test_what_a_machine_carries_without_known_figures_has_no_chip():
    assert [a.name for a in accelerators().values() if a.chip is None] == ["NVIDIA_GB300"]


def test_tpus():
    assert {a.name for a in accelerators().values() if a.is_tpu} == {
        *("TPU_V2", "TPU_V3", "TPU_V4", "TPU_V5E", "TPU_V5P", "TPU_V6E"),
        *("TPU_V2_POD", "TPU_V3_POD", "TPU_V4_POD"),
    }


def test_device_strings():
    assert device_strings(0) == ()
    assert device_strings(1) == ("/gpu:0",)
    assert device_strings(4) == ("/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3")


@given(st.text())
def test_any_text_names_a_known_accelerator_or_none(text):
    found = find_accelerator(text)
    assert found is None or found is accelerators()[found.name]
