"""A node in full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from docs.scripted_site import NOW, sample_of
from stoker.cli.node_details import _MACHINE, details_of, show_details
from stoker.gpu.reading import Fault, GpuProcess, Reading
from stoker.sampling.host import HOST_METRICS
from stoker.sampling.series import SPEED
from tests.cli.gpu_site import a_gpu_site

H100, T4 = "local-nvidia_h100_80gb", "local-nvidia_tesla_t4"


def test_gpus_processes_and_the_last_hour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_gpu_site(tmp_path / "home") as site:
        nodes = [node for node in site.stoker.store.world().nodes.values() if not node.virtual]
        sample = sample_of(site.products, NOW)
        lost = Reading(device=sample.gpus[3].device, fault=Fault.LOST, problem="it has fallen off the bus")
        uses = GpuProcess(uuid="GPU-fake-0", pid=4711, memory_bytes=3.0 * 2**30, sm_percent=80.0)
        gpus = [*sample.gpus[:3], lost, *sample.gpus[4:]]
        site.stoker.services.monitor.hear(nodes, replace(sample, gpus=gpus, processes=[uses]))
        node = details_of(site.client, H100)
        assert [gpu["index"] for gpu in node["gpus"]] == [0, 1, 2, 3] and node["jobs"] == ["train"]
        assert len(details_of(site.client, T4)["gpus"]) == 2
    show_details(node)
    told = capsys.readouterr()
    gpus_shown, processes, machine = told.out.strip().split("\n\n")
    assert gpus_shown.splitlines()[1].split()[0] == "0" and "train/chief-0" in gpus_shown and "LOST" in gpus_shown
    assert processes.splitlines()[1].split() == ["4711", "0", "3", "GiB", "80", "%"]
    assert machine.splitlines()[1].startswith("processors") and "212/512 GiB" in machine and "94 MB/s" in machine
    assert "GPU 3: LOST: it has fallen off the bus" in told.err


def test_a_node_that_is_only_declared_has_none_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_gpu_site(tmp_path / "home", seconds=-1) as site:
        node = details_of(site.client, H100)
    assert node["gpus"] == [] and node["samples"] == []
    show_details(node)
    assert capsys.readouterr().out == ""


def test_every_number_of_a_machine_is_shown() -> None:
    measured = {f"{metric.name}{SPEED if metric.is_counter else ''}" for metric in HOST_METRICS}
    assert measured - {"host_memory_total_bytes"} == _MACHINE.keys()
