import pytest

from stoker.hardware.faults import Fault
from stoker.hardware.place_rules import place_faults
from stoker.hardware.regions import regions, zones_with

T4, K80, P100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100"


def test_t4_k80_and_p100_in_iowa_share_no_zone():
    assert place_faults([T4, K80, P100], "us-central1") == (
        Fault(
            role="",
            field="zone",
            found="NVIDIA_TESLA_T4, NVIDIA_TESLA_K80 and NVIDIA_TESLA_P100 in us-central1",
            why="all accelerators of a job must be in one zone, and in us-central1 NVIDIA_TESLA_T4 is in a, b and f; "
            "NVIDIA_TESLA_K80 is in a and c; NVIDIA_TESLA_P100 is in c and f",
            fix="run in us-east1, us-west1, asia-east1 or europe-west1; or stay in us-central1 with "
            "NVIDIA_TESLA_T4 and NVIDIA_TESLA_K80 (zone us-central1-a), "
            "NVIDIA_TESLA_K80 and NVIDIA_TESLA_P100 (zone us-central1-c) or "
            "NVIDIA_TESLA_T4 and NVIDIA_TESLA_P100 (zone us-central1-f); or use one type of accelerator",
        ),
    )


@pytest.mark.parametrize("accelerators", [[], [T4], [K80], [P100], [T4, K80], [K80, P100], [T4, P100]])
def test_fewer_of_them_run_there(accelerators):
    assert place_faults(accelerators, "us-central1") == ()


def test_what_the_region_lacks_is_named_with_regions_for_the_whole_job():
    faults = place_faults([T4, K80], "us-west2")
    assert [(fault.field, fault.found, fault.why) for fault in faults] == [
        ("region", "NVIDIA_TESLA_K80 in us-west2", "no zone of us-west2 is known to have NVIDIA_TESLA_K80")
    ]
    assert faults[0].fix == "run in us-central1, us-east1, us-west1, asia-east1 or europe-west1"
    assert all(zones_with(region, [T4, K80]) for region in ("us-central1", "us-east1", "us-west1", "asia-east1"))


def test_the_regions_named_have_the_whole_job_in_one_zone():
    (fault,) = place_faults(["NVIDIA_TESLA_V100", "NVIDIA_TESLA_P4"], "us-east4")
    assert fault.fix == "run in us-central1 or europe-west4"


def test_where_no_zone_at_all_has_the_whole_job_that_is_said_and_the_regions_have_what_is_missing():
    (fault,) = place_faults([K80, "NVIDIA_B200"], "asia-east1")
    assert fault.found == "NVIDIA_B200 in asia-east1"
    assert fault.why == (
        "no zone of asia-east1 is known to have NVIDIA_B200, "
        "and none anywhere has all of NVIDIA_TESLA_K80 and NVIDIA_B200"
    )
    assert fault.fix.startswith("run in asia-northeast1, asia-southeast1, europe-north1, europe-west4,")


def test_two_accelerators_can_miss_each_other_too():
    (fault,) = place_faults([P100, "NVIDIA_TESLA_P4"], "europe-west4")
    assert (fault.field, fault.fix.partition(";")[0]) == ("zone", "run in us-central1")


def test_each_missing_accelerator_and_the_zone_of_the_others_at_once():
    faults = place_faults([T4, K80, P100, "NVIDIA_H200_141GB", "NVIDIA_B200", "NVIDIA_GB200"], "us-central1")
    assert [(fault.field, fault.found.split()[0]) for fault in faults] == [
        ("region", "NVIDIA_GB200"),
        ("zone", "NVIDIA_TESLA_T4,"),
    ]


def test_where_no_region_has_it_another_accelerator_is_named():
    (fault,) = place_faults(["NVIDIA_GB200"], "us-central1")
    assert (fault.why, fault.fix) == (
        "no zone of any region is known to have NVIDIA_GB200",
        "use NVIDIA_B200 or NVIDIA_H200_141GB",
    )


def test_of_many_regions_the_first_few_of_the_same_area_are_shown():
    (fault,) = place_faults([T4], "europe-north1")
    assert (
        fault.fix
        == "run in europe-west1, europe-west2, europe-west3, europe-west4, asia-east1, asia-northeast1 or 13 others"
    )
    assert sum(bool(zones_with(region, [T4])) for region in regions()) == 6 + 13


@pytest.mark.parametrize(
    ("region", "found", "why", "fix"),
    [
        ("us-centrall", "us-centrall", "there is no such region", "use us-central1"),
        ("us-central1-a", "us-central1-a", "that is a zone, not a region", "use us-central1"),
        ("", "no region", "a job runs in a region", "name one, such as us-central1"),
        ("???", "???", "there is no such region", "use us-central1"),
    ],
)
def test_unknown_regions(region, found, why, fix):
    assert place_faults([T4], region) == (Fault(role="", field="region", found=found, why=why, fix=fix),)
