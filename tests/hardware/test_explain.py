from stoker.hardware.explain import (
    nearest_hosts,
    none_at_all,
    not_on_legacy,
    not_the_built_in,
    not_this_count,
    similar_accelerators,
)
from stoker.hardware.machines import machine_types


def machine(name):
    return machine_types()[name]


def test_too_few_v100_for_the_machine():
    assert not_this_count(machine("n1-standard-32"), "NVIDIA_TESLA_V100", 2) == (
        "needs 4: each NVIDIA_TESLA_V100 serves at most 12 vCPU and 78 GB, n1-standard-32 has 32 vCPU and 120 GB",
        "use 4 (n1-standard-32 takes 4 or 8)",
    )


def test_three_t4_are_never_sold():
    assert not_this_count(machine("n1-highcpu-16"), "NVIDIA_TESLA_T4", 3) == (
        "NVIDIA_TESLA_T4 comes in 1, 2 or 4 per machine",
        "use 2 or 4 (n1-highcpu-16 takes 1, 2 or 4)",
    )


def test_more_than_a_machine_takes_are_had_by_more_replicas():
    assert not_this_count(machine("n1-standard-4"), "NVIDIA_TESLA_T4", 40).fix == (
        "use 4 (n1-standard-4 takes 1, 2 or 4); for more of them, ask for more replicas"
    )


def test_the_two_exceptions_are_explained_with_their_figures():
    assert none_at_all(machine("n1-standard-64"), "NVIDIA_TESLA_K80", 8) == (
        "even 8, the most there are, serve at most 64 vCPU and 208 GB (in every zone; 8 times one would be 416 GB), "
        "and n1-standard-64 has 64 vCPU and 240 GB",
        "use n1-highcpu-64 (with 8) or n1-highmem-32 (with 4 or 8), "
        "or keep n1-standard-64 with 4 NVIDIA_TESLA_P4, 4 NVIDIA_TESLA_T4 or 8 NVIDIA_TESLA_V100",
    )
    assert none_at_all(machine("n1-highmem-64"), "NVIDIA_TESLA_P100", 4).why == (
        "even 4, the most there are, serve at most 64 vCPU and 208 GB (in every zone; 4 times one would be 416 GB), "
        "and n1-highmem-64 has 64 vCPU and 416 GB"
    )


def test_what_is_only_sold_built_in():
    assert none_at_all(machine("n1-standard-4"), "NVIDIA_TESLA_A100", 8) == (
        "NVIDIA_TESLA_A100 is sold only on "
        "a2-highgpu-1g, a2-highgpu-2g, a2-highgpu-4g, a2-highgpu-8g or a2-megagpu-16g",
        "use a2-highgpu-8g (with 8), or another accelerator",
    )


def test_what_is_built_in_is_not_changed():
    assert not_the_built_in(machine("a2-highgpu-1g"), "NVIDIA_TESLA_A100", 2) == (
        "a2-highgpu-1g has exactly 1 NVIDIA_TESLA_A100 built in, and takes no others",
        "ask for 1 NVIDIA_TESLA_A100 or name no accelerator, or use a2-highgpu-2g (with 2)",
    )
    assert not_the_built_in(machine("a3-ultragpu-8g"), "NVIDIA_H200_141GB", 4).fix == (
        "ask for 8 NVIDIA_H200_141GB or name no accelerator"
    )


def test_a_legacy_type_stands_for_its_gpus():
    assert not_on_legacy(machine("standard_gpu"), "NVIDIA_TESLA_K80", 2) == (
        "standard_gpu is a legacy machine type: it stands for 1 NVIDIA_TESLA_K80, and none can be attached",
        "name no accelerator, or use a Compute Engine machine type: "
        "n1-standard-8 (with 1, 2, 4 or 8) or n1-highmem-8 (with 1, 2, 4 or 8)",
    )
    assert "it stands for no accelerator" in not_on_legacy(machine("standard"), "NVIDIA_TESLA_T4", 1).why


def test_the_nearest_hosts_have_the_count_if_any_has_and_are_alike_in_size():
    assert nearest_hosts(machine("n1-standard-4"), "NVIDIA_L4", 4) == ["g2-standard-48"]
    assert nearest_hosts(machine("n1-standard-4"), "NVIDIA_L4", 3) == ["g2-standard-4", "g2-standard-8"]
    assert nearest_hosts(machine("n1-standard-16"), "NVIDIA_TESLA_V100", 1, limit=1) == ["n1-highmem-8"]


def test_a_card_that_none_sells_resembles_those_with_as_much_memory():
    assert similar_accelerators("NVIDIA_RTX_3090") == ["NVIDIA_L4", "NVIDIA_TESLA_A100"]
    assert similar_accelerators("NVIDIA_GB200") == ["NVIDIA_B200", "NVIDIA_H200_141GB"]
