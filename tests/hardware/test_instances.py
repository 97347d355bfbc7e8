"""Machines of other clouds: the cheapest that has the same GPUs and is no smaller."""

from __future__ import annotations

from stoker.hardware.instances import cheapest_instance, instances_with
from tests.hardware.builders import table

T4 = "NVIDIA_TESLA_T4"


def name_of(provider, region, accelerator, count, vcpus, memory_gb):
    found = cheapest_instance(provider, region, accelerator, count, vcpus, memory_gb)
    return found.name if found is not None else ""


def test_the_cheapest_that_is_large_enough():
    assert name_of("aws", "us-east-1", T4, 1, 4, 16) == "g4dn.xlarge"
    assert name_of("aws", "us-east-1", T4, 1, 8, 30) == "g4dn.2xlarge"
    assert name_of("aws", "us-east-1", T4, 1, 4, 40) == "g4dn.4xlarge"
    assert name_of("azure", "westus2", T4, 4, 16, 14.4) == "Standard_NC64as_T4_v3"


def test_the_number_of_gpus_is_exact():
    assert name_of("aws", "us-east-1", T4, 2, 4, 16) == ""
    assert name_of("aws", "us-east-1", T4, 8, 4, 16) == "g4dn.metal"


def test_what_is_too_large_is_nowhere():
    assert name_of("aws", "us-east-1", T4, 4, 96, 16) == ""
    assert name_of("aws", "us-east-1", "NVIDIA_P100_SXM2", 1, 1, 1) == ""
    assert name_of("aws", "us-east-1", "no-such-gpu", 1, 1, 1) == ""


def test_aws_has_the_machines_of_one_region_in_the_table_and_azure_of_each():
    assert name_of("aws", "eu-west-1", T4, 1, 4, 16) == "g4dn.xlarge"
    assert name_of("azure", "nowhere", T4, 1, 4, 16) == ""


def test_chips_that_google_does_not_sell_are_found_too():
    assert name_of("aws", "us-east-1", "NVIDIA_A10G", 1, 4, 16) == "g5.xlarge"
    assert name_of("aws", "us-east-1", "NVIDIA_V100_32", 8, 96, 768) == "p3dn.24xlarge"


def test_no_machine_is_retired_a_fraction_or_spot_only():
    found = [one for provider in ("aws", "azure") for one in instances_with(provider, T4, 1)]
    assert {one.name for one in found} >= {"g4dn.xlarge", "Standard_NC4as_T4_v3"}
    known = {(row["item"], row["on_demand_usd_h"]) for row in table("prices.csv") if not row["flag"]}
    assert {(one.name, f"{one.usd_per_hour:g}") for one in found} <= {(n, f"{float(p):g}") for n, p in known if p}
