"""The pools and budgets of a site file: what becomes of them, and what the rules of the hardware say against them."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from stoker.core.site import Budget, Pool
from stoker.site.site_file import parse_site

GOOD = """
[pools.t4x4]
machine_type = "n1-highcpu-16"
accelerator_type = "T4"
accelerator_count = 4
zones = ["us-west1-a", "us-west1-b"]
max = 12
[pools.cpu]
machine_type = "n1-standard-8"
zone = "us-west1-a"
min = 1
max = 6
spot = true
[pools.own]
vcpus = 32
memory_gb = 128
accelerator_type = "A100"
max = 2
[scaling]
idle = "5m"
patience = 90
[budgets.default]
usd_per_hour = 40
[budgets.vision]
usd_per_month = 1000
"""


def test_pools() -> None:
    site = parse_site(GOOD.replace("max = 2", "max = 2\nusd_per_hour = 3.5"))
    of_two_zones = {
        f"t4x4-{zone}": Pool(
            name=f"t4x4-{zone}",
            machine="n1-highcpu-16",
            accelerator="NVIDIA_TESLA_T4",
            accelerators=4,
            vcpus=16,
            memory_gb=14.4,
            region="us-west1",
            zone=zone,
            most=12,
            usd_per_hour=1.96679,
        )
        for zone in ("us-west1-a", "us-west1-b")
    }
    assert {name: pool for name, pool in site.pools.items() if name.startswith("t4x4")} == of_two_zones
    cpu, own = site.pools["cpu"], site.pools["own"]
    assert (cpu.least, cpu.most, cpu.spot, cpu.accelerator) == (1, 6, True, "")
    assert cpu.usd_per_hour is not None and cpu.usd_per_hour < 0.38  # what it costs on demand
    assert (own.accelerators, own.vcpus, own.memory_gb, own.usd_per_hour, own.zone) == (1, 32, 128, 3.5, "")
    assert (site.idle_seconds, site.patience_seconds) == (300, 90)


def test_budgets() -> None:
    site = parse_site(GOOD.replace("max = 2", "max = 2\nusd_per_hour = 3.5"))
    assert site.budget("vision") == Budget(usd_per_month=1000)
    assert site.budget("anybody") == Budget(usd_per_hour=40)
    assert parse_site("").budget("anybody") == Budget()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('machine_type = "n1-highcpu-16"\naccelerator_type = "T4"\naccelerator_count = 3', 2, "use 2 or 4"),
        ('machine_type = "n1-highcpu-96"\naccelerator_type = "T4"', 2, "needs 4: each NVIDIA_TESLA_T4 serves at most"),
        ('machine_type = "n1-standard-9"', 2, "use n1-standard-8"),
        ('machine_type = "standard_gpu"', 2, "use n1-standard-8 with 1 x NVIDIA_TESLA_K80"),
        ('machine_type = "n1-standard-8"\nvcpus = 9', 3, "leave it out"),
        ('machine_type = "n1-standard-8"\naccelerator_count = 2', 3, "of which type?"),
        ("", 1, "needs `machine_type`, or the `vcpus`"),
        ('machine_type = "n1-standard-8"\nmin = 4', 3, "is 4, more than `max`, which is 3"),
        ('machine_type = "n1-standard-8"\nzone = "us-west1-a"\nregion = "us-east1"', 4, "is in us-west1"),
        ('machine_type = "n1-standard-8"\nregion = "moon"', 3, "there is no region 'moon'"),
        ('machine_type = "n1-standard-8"\nzone = "A B"', 3, "is not a zone"),
        ('machine_type = "n1-standard-8"\nzones = []', 3, "is not a list of zones"),
        ('machine_type = "n1-standard-8"\nzones = ["us-west1-a", "us-west1-a"]', 3, "names a zone twice"),
        ('machine_type = "n1-standard-8"\nzone = "us-west1-a"\nzones = ["us-west1-b"]', 4, "keep one of them"),
        ('machine_type = "n1-standard-8"\nprice = 3', 3, "there is no such key"),
        (
            'machine_type = "a2-highgpu-1g"\nzone = "us-west1-a"',
            3,
            "has no such machine; us-west1 has it in us-west1-b",
        ),
        ("vcpus = 1\nmemory_gb = 1\naccelerator_type = 'T4'\naccelerator_count = 65", 5, "more than any machine has"),
    ],
)
def test_what_cannot_exist(text: str, line: int, said: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_site(f"[pools.one]\n{text}\nmax = 3\n", "site.toml")
    found = [v for v in caught.value.violations if said in v.description]
    assert found and found[0].field.startswith(f"site.toml:{line} pools.one"), caught.value.violations


def test_no_most() -> None:
    with pytest.raises(BadSpec, match="needs `max`"):
        parse_site('[pools.one]\nmachine_type = "n1-standard-8"')


def test_two_of_a_name() -> None:
    text = '[pools.a]\nmachine_type="n1-standard-8"\nmax=1\nzones=["us-west1-a","us-west1-b"]\n'
    with pytest.raises(BadSpec, match="is there already"):
        parse_site(text + '[pools.a-us-west1-a]\nmachine_type="n1-standard-8"\nmax=1')


@pytest.mark.parametrize("name", ["A", "1a", "a-", "a_b", "x" * 41])
def test_names(name: str) -> None:
    with pytest.raises(BadSpec, match="not a name of a pool"):
        parse_site(f'[pools."{name}"]\nmachine_type="n1-standard-8"\nmax=1')


def test_a_pool_without_a_price_under_a_budget() -> None:
    text = "[pools.own]\nvcpus = 1\nmemory_gb = 1\nmax = 1\n"
    assert parse_site(text).pools["own"].usd_per_hour is None
    with pytest.raises(BadSpec, match="give it usd_per_hour"):
        parse_site(text + "[budgets.default]\nusd_per_hour = 1")
