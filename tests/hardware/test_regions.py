import pytest

from stoker.hardware.regions import accelerators_in, find_region, regions, regions_with, zones, zones_with
from tests.hardware.builders import table

# The regions with GPUs, as the documentation lists them.
GPU_REGIONS = (
    *("us-west1", "us-west2", "us-central1", "us-east1", "us-east4"),
    *("northamerica-northeast1", "southamerica-east1", "europe-west1", "europe-west2", "europe-west4"),
    *("asia-south1", "asia-southeast1", "asia-east1", "asia-northeast1", "asia-northeast3", "australia-southeast1"),
)
TRAINING_GPUS = [f"NVIDIA_TESLA_{chip}" for chip in ("K80", "P4", "P100", "T4", "V100", "A100")]


def test_the_listed_gpu_regions_are_those_and_each_has_some_gpu():
    assert {region.name for region in regions().values() if region.aip_gpus} == set(GPU_REGIONS)
    for region in GPU_REGIONS:
        assert any(zones_with(region, [gpu]) for gpu in TRAINING_GPUS), region


def test_a_region():
    iowa = find_region("us-central1")
    assert iowa is not None
    assert (iowa.location, iowa.area, iowa.aip_training) == ("Iowa", "americas", True)
    assert iowa.zones == zones("us-central1") == tuple(f"us-central1-{letter}" for letter in "abcf")
    assert find_region("US-CENTRAL1") is None and zones("no-such") == ()


def test_a_region_newer_than_the_dump_has_zones_too():
    assert zones("me-central2") == ("me-central2-a", "me-central2-b", "me-central2-c")


def test_t4_k80_and_p100_are_each_in_iowa_and_pairwise_in_one_zone_but_never_all_three():
    t4, k80, p100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100"
    assert zones_with("us-central1", [t4]) == ["us-central1-a", "us-central1-b", "us-central1-f"]
    assert zones_with("us-central1", [t4, k80]) == ["us-central1-a"]
    assert zones_with("us-central1", [k80, p100]) == ["us-central1-c"]
    assert zones_with("us-central1", [t4, p100]) == ["us-central1-f"]
    assert zones_with("us-central1", [t4, k80, p100]) == []
    assert regions_with([t4, k80, p100]) == ["asia-east1", "europe-west1", "us-east1", "us-west1"]


def test_without_accelerators_every_zone_and_every_region_will_do():
    assert zones_with("europe-north1", []) == list(zones("europe-north1"))
    assert regions_with([]) == [row["region"] for row in table("regions.csv")]


def test_any_spelling_of_an_accelerator_will_do_and_unknown_ones_are_nowhere():
    assert zones_with("us-central1", ["t4"]) == zones_with("us-central1", ["nvidia-tesla-t4"]) != []
    assert zones_with("us-central1", ["no-such"]) == [] == zones_with("no-such", ["t4"])


@pytest.mark.parametrize("gpu", TRAINING_GPUS)
def test_training_gpus_are_where_the_documented_snapshot_has_them(gpu):
    name = gpu.lower().replace("_", "-")
    expected = {
        row["zone"]
        for row in table("accelerator_zones.csv")
        if (row["gce_accelerator"], row["snapshot"]) == (name, "aip-seed")
    }
    assert {zone for region in regions() for zone in zones_with(region, [gpu])} == expected


@pytest.mark.parametrize(
    "gpu", ["NVIDIA_L4", "NVIDIA_A100_80GB", "NVIDIA_H100_80GB", "NVIDIA_H200_141GB", "NVIDIA_B200"]
)
def test_newer_gpus_are_where_the_latest_snapshot_has_them(gpu):
    name = gpu.lower().replace("_", "-")
    expected = {
        row["zone"]
        for row in table("accelerator_zones.csv")
        if (row["gce_accelerator"], row["snapshot"]) == (name, "sky-v8")
    }
    assert {zone for region in regions() for zone in zones_with(region, [gpu])} == expected


def test_what_a_zone_has():
    assert accelerators_in("us-west4-b") >= {"NVIDIA_TESLA_A100", "NVIDIA_TESLA_T4"}
    assert accelerators_in("us-west4-b").isdisjoint({"NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100"})
    assert accelerators_in("no-such-zone") == frozenset()
