import pytest

from stoker.hardware.machines import MachineType, find_machine_type, is_foreign, machine_types, nearest_machine_type
from tests.hardware.builders import table

# Legacy machine type → Compute Engine type, vCPUs, memory in GB, GPUs, as the documentation describes them.
LEGACY = {
    "standard": ("n1-standard-4", 4, 15, 0, ""),
    "large_model": ("n1-highmem-8", 8, 52, 0, ""),
    "complex_model_s": ("n1-highcpu-8", 8, 7.2, 0, ""),
    "complex_model_m": ("n1-highcpu-16", 16, 14.4, 0, ""),
    "complex_model_l": ("n1-highcpu-32", 32, 28.8, 0, ""),
    "standard_gpu": ("n1-standard-8", 8, 30, 1, "NVIDIA_TESLA_K80"),
    "complex_model_m_gpu": ("n1-standard-16", 16, 60, 4, "NVIDIA_TESLA_K80"),
    "complex_model_l_gpu": ("n1-standard-32", 32, 120, 8, "NVIDIA_TESLA_K80"),
    "standard_p100": ("n1-standard-8", 8, 30, 1, "NVIDIA_TESLA_P100"),
    "complex_model_m_p100": ("n1-standard-16", 16, 60, 4, "NVIDIA_TESLA_P100"),
    "standard_v100": ("n1-standard-8", 8, 30, 1, "NVIDIA_TESLA_V100"),
    "large_model_v100": ("n1-highmem-8", 8, 52, 1, "NVIDIA_TESLA_V100"),
    "complex_model_m_v100": ("n1-standard-16", 16, 60, 4, "NVIDIA_TESLA_V100"),
    "complex_model_l_v100": ("n1-standard-32", 32, 120, 8, "NVIDIA_TESLA_V100"),
    "cloud_tpu": ("cloud_tpu", 0, 0, 8, "TPU_V2"),
}


def test_an_n1_machine():
    assert find_machine_type("n1-highcpu-16") == MachineType(
        name="n1-highcpu-16",
        series="n1",
        vcpus=16,
        memory_gb=14.4,
        accelerator="",
        accelerator_count=0,
        legacy=False,
        gce_equivalent="n1-highcpu-16",
        offered=True,
        gpu_attachable=True,
    )


def test_machines_with_built_in_accelerators():
    built_in = {name: (m.accelerator_count, m.accelerator) for name, m in machine_types().items()}
    assert built_in["a2-megagpu-16g"] == (16, "NVIDIA_TESLA_A100")
    assert built_in["a2-ultragpu-1g"] == (1, "NVIDIA_A100_80GB")
    assert built_in["g4-standard-6"] == (0.125, "NVIDIA_RTX_PRO_6000")
    assert built_in["ct5lp-hightpu-4t"] == (4, "TPU_V5E")
    assert built_in["n1-standard-4"] == (0, "")


def test_the_legacy_table():
    known = {
        m.name: (m.gce_equivalent, m.vcpus, m.memory_gb, m.accelerator_count, m.accelerator)
        for m in machine_types().values()
        if m.legacy
    }
    assert known == LEGACY


def test_a_legacy_type_is_as_large_as_what_it_stands_for():
    for name, (equivalent, *_) in LEGACY.items():
        if name != "cloud_tpu":
            legacy, machine = machine_types()[name], machine_types()[equivalent]
            assert (legacy.vcpus, legacy.memory_gb) == (machine.vcpus, machine.memory_gb), name


def test_what_either_service_accepts_is_offered_and_no_more():
    rows = table("machine_types.csv")
    accepted = {row["machine_type"] for row in rows if "yes" in (row["aip_training"], row["vertex_training"])}
    assert {m.name for m in machine_types().values() if m.offered} == accepted | set(LEGACY)
    assert "n1-standard-1" not in accepted and "a3-ultragpu-8g" in accepted


def test_a_machine_is_found_by_its_exact_name_only():
    assert find_machine_type("N1-STANDARD-4") is None


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("n1-standard-1", "n1-standard-4"),
        ("n1-highcpu-8", "n1-highcpu-16"),
        ("n1-standard-48", "n1-standard-64"),
        ("e2-standard-2", "n1-standard-4"),
        ("n2-highmem-8", "n1-highmem-8"),
        ("c2-standard-60", "n1-standard-64"),
        ("n2-custom-4-8192", "n1-standard-4"),
        ("n2-custom-2-4096", "n1-standard-4"),
        ("custom-8-16384", "n1-standard-8"),
        ("e2-medium", "n1-standard-4"),
        ("g4-standard-24", "g4-standard-48"),
        ("a3-edgegpu-8g", "a3-highgpu-8g"),
        ("a4x-maxgpu-4g-metal", "a4x-highgpu-4g"),
        ("n1-standrd-4", "n1-standard-4"),
        ("N1-Standard-8", "n1-standard-8"),
        ("complex-model-m-gpu", "complex_model_m_gpu"),
        ("a2-higpu-1g", "a2-highgpu-1g"),
        ("a2-highgpu-8", "a2-highgpu-8g"),
        ("no such thing at all", ""),
        ("", ""),
    ],
)
def test_the_nearest_offered_machine_type(name, nearest):
    assert nearest_machine_type(name) == nearest


def test_a_foreign_series_is_told_from_a_slip():
    assert [is_foreign(name) for name in ("e2-medium", "n2d-standard-4", "n1-custom-2-4096")] == [True] * 3
    assert [is_foreign(name) for name in ("n1-standard-5", "n1-standrd-4", "gpu", "")] == [False] * 4
