"""`stoker machines`, `accelerators`, `regions`: the catalog, without a server."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli


def test_machines(cli: Cli) -> None:
    assert "n1-highcpu-16" in cli("machines").out
    (row,) = json.loads(cli("machines", "n1-highcpu-16", "--json").out)["machines"]
    assert (row["vcpus"], row["memory_gb"], row["attachable"]["NVIDIA_TESLA_T4"]) == (16, 14.4, [1, 2, 4])
    with_t4 = [r["machine_type"] for r in json.loads(cli("machines", "--gpu", "t4", "--json").out)["machines"]]
    assert "n1-standard-4" in with_t4 and "a2-highgpu-1g" not in with_t4
    built_in = json.loads(cli("machines", "--gpu", "a100", "--json").out)["machines"]
    assert built_in and all("NVIDIA_TESLA_A100" in r["built_in"] for r in built_in)
    assert len(cli("machines", "--all").out) > len(cli("machines").out)


@pytest.mark.parametrize("name", ["T4", "nvidia-tesla-t4", "NVIDIA_TESLA_T4", "Tesla T4"])
def test_an_accelerator_by_any_of_its_names(cli: Cli, name: str) -> None:
    (row,) = json.loads(cli("accelerators", name, "--json").out)["accelerators"]
    assert (row["name"], row["counts"]) == ("NVIDIA_TESLA_T4", [1, 2, 4])
    assert "memory_gb             16" in cli("accelerators", name).out


def test_accelerators(cli: Cli) -> None:
    assert len(cli("accelerators").out.splitlines()) > 20


def test_regions(cli: Cli) -> None:
    assert "us-central1" in cli("regions").out
    rows = json.loads(cli("regions", "--gpu", "T4", "--gpu", "K80", "--json").out)["regions"]
    assert {"us-central1", "europe-west1"} <= {row["region"] for row in rows}
    (one,) = json.loads(cli("regions", "us-central1", "--gpu", "K80", "--gpu", "P100", "--json").out)["regions"]
    assert one["zones"] == ["us-central1-c"]


def test_no_server_was_needed(cli: Cli) -> None:
    for words in (("machines",), ("accelerators",), ("regions",)):
        assert cli(*words).err == ""
    assert not cli.home.exists()
