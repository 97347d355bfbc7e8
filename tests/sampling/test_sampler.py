"""A machine is sampled every second, whatever its driver does; and what it does comes to its server."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stoker.core.node import Node
from stoker.gpu.device import Device
from stoker.gpu.drivers.fake import FakeDriver
from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.gpu.reading import Fault, GpuProcess, Reading, Xid
from stoker.sampling.feed import Feed
from stoker.sampling.history import History
from stoker.sampling.host import HOST_METRICS, HostReader
from stoker.sampling.monitor import COUNTERS, Monitor
from stoker.sampling.sample import Sample, from_line, to_line
from stoker.sampling.sampler import Sampler
from tests.conftest import wait_until
from tests.gpu.nvml_library import Gpu, playing

DEVICE = Device(index=0, uuid="GPU-0", product="NVIDIA H100", memory_bytes=80 << 30, pci_bus_id="00:01")


def test_a_machine_tells_of_itself() -> None:
    found = HostReader().read()
    assert set(found) <= {metric.name for metric in HOST_METRICS}
    assert found["host_memory_total_bytes"] >= found["host_memory_used_bytes"] > 0 and found["load"] >= 0


def test_a_sample_goes_on_a_line_and_comes_back() -> None:
    sample = Sample(
        at=1234.5,
        host={"load": 1.5, "disk_read_bytes": 123456789012.0},
        gpus=[
            Reading(device=DEVICE, values={"power_watts": 300.25}),
            Reading(device=DEVICE, fault=Fault.LOST, problem="GPU is lost"),
        ],
        processes=[GpuProcess(uuid="GPU-0", pid=7, memory_bytes=1.0, sm_percent=None)],
        errors=[Xid(uuid="GPU-0", code=79, at=1.0)],
    )
    line = to_line(sample)
    assert from_line(line) == sample and "\n" not in line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"at": "soon"}',
        '{"at": -1}',
        '{"at": 1, "gpus": [{}]}',
        '{"at": 1, "host": {"a": "b"}}',
        "[" * 9999,
    ],
)
def test_what_is_not_a_sample_is_told(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def test_numbers_that_are_none_are_left_out() -> None:
    assert from_line('{"at": 1, "host": {"a": NaN, "b": Infinity, "c": 2}}').host == {"c": 2.0}


def test_a_driver_that_hangs_holds_up_its_own_readings_alone() -> None:
    told: list[Sample] = []
    with playing(Gpu()) as library:
        reader = NvmlDriver().reader()
        assert reader is not None
        sampler = Sampler([reader], seconds=0.05, stuck_seconds=0.3)
        thread = threading.Thread(target=sampler.run, args=[told.append], daemon=True)
        thread.start()
        wait_until(lambda: any(sample.gpus for sample in told))
        library.hangs["nvmlDeviceGetPowerUsage"] = threading.Event()
        stuck = wait_until(lambda: [s for s in told if s.gpus and s.gpus[0].fault is Fault.STUCK])[0]
        assert "has not answered for" in stuck.gpus[0].problem and not stuck.gpus[0].values
        count = len(told)
        wait_until(lambda: len(told) > count + 5)
        assert told[-1].host, "the machine itself is sampled on"
        library.hangs.pop("nvmlDeviceGetPowerUsage").set()
        wait_until(lambda: told[-1].gpus[0].fault is None)
        assert told[-1].gpus[0].values["power_watts"] == 500
        sampler.end()
        thread.join(10)


@pytest.fixture
def heard() -> list[Sample]:
    return []


def a_feed(heard: list[Sample], code: str) -> Feed:
    return Feed(heard.append, seconds=0.05, command=[sys.executable, "-u", "-c", code])


@pytest.fixture
def of_this_machine(heard: list[Sample]) -> Iterator[Feed]:
    made = Feed(heard.append, seconds=0.2)
    made.start()
    yield made
    made.end()


@pytest.mark.live
def test_the_process_that_samples_tells_its_server(of_this_machine: Feed, heard: list[Sample]) -> None:
    wait_until(lambda: len(heard) > 3)
    assert heard[-1].host["load"] >= 0 and of_this_machine.problem() == ""
    assert heard[2].at > heard[1].at


@pytest.mark.live
def test_one_that_was_killed_is_started_again(of_this_machine: Feed, heard: list[Sample]) -> None:
    wait_until(lambda: heard)
    own = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    (first,) = [child.pid for child in own if "stoker.sampling.agent" in child.cmdline()]
    os.kill(first, 9)
    wait_until(of_this_machine.problem)
    count = len(heard)
    wait_until(lambda: len(heard) > count and not of_this_machine.problem())


@pytest.mark.live
def test_lines_that_are_none_are_passed_over_and_an_end_is_told(heard: list[Sample]) -> None:
    feed = a_feed(heard, 'print("hello"); print(\'{"at": 5}\'); raise SystemExit(3)')
    feed.start()
    wait_until(feed.problem)
    assert [sample.at for sample in heard] == [5.0]
    assert feed.problem() == "this machine is not sampled: the process that does it ended with 3"
    feed.end()


@pytest.mark.live
def test_one_that_cannot_be_started_is_told(heard: list[Sample]) -> None:
    feed = Feed(heard.append, seconds=1.0, command=["/nowhere/stoker"])
    feed.start()
    wait_until(feed.problem)
    assert "No such file" in feed.problem()
    feed.end()


def a_monitor(tmp_path: Path) -> Monitor:
    return Monitor(History(tmp_path / "s.db", COUNTERS, clock=lambda: 1000.0), lambda: 1000.0)


NODES = [
    Node(name="local-h100", engine="local", devices=("GPU-fake-0",)),
    Node(name="local-t4", engine="local", devices=("GPU-fake-1",)),
]


def test_gpus_belong_to_the_node_that_has_them(tmp_path: Path) -> None:
    monitor = a_monitor(tmp_path)
    reader = FakeDriver("NVIDIA H100", "Tesla T4", "Strange 1").reader()
    assert reader is not None
    process = GpuProcess(uuid="GPU-fake-1", pid=7)
    sample = Sample(at=990.0, host={"load": 2.0}, gpus=reader.read(slow=False), processes=[process])
    monitor.hear(NODES, sample)
    assert [(now.node, now.reading.device.uuid, len(now.processes)) for now in monitor.gpus()] == [
        ("local-h100", "GPU-fake-0", 0),
        ("local-h100", "GPU-fake-2", 0),
        ("local-t4", "GPU-fake-1", 1),
    ]
    monitor.hear(NODES, Sample(at=991.0, gpus=sample.gpus))
    assert len(monitor.gpus()[2].processes) == 1, "processes are asked for less often"
    assert monitor.host("local-t4") == {} and monitor.host("nowhere") == {}
    history = monitor.history
    assert history is not None
    assert history.newest("local-t4", "GPU-fake-1") == (991.0, dict(sample.gpus[1].values))


def test_what_was_not_heard_of_lately_is_not_shown_as_what_is(tmp_path: Path) -> None:
    monitor = a_monitor(tmp_path)
    monitor.hear(NODES, Sample(at=900.0, host={"load": 2.0}, gpus=[Reading(device=DEVICE)]))
    assert not monitor.gpus() and not monitor.host("local-h100") and not monitor.problems()


def test_faults_are_problems_of_the_site(tmp_path: Path) -> None:
    monitor = a_monitor(tmp_path)
    lost = Reading(device=DEVICE, fault=Fault.LOST, problem="GPU is lost")
    monitor.hear(NODES, Sample(at=999.0, gpus=[lost], errors=[Xid(uuid="GPU-0", code=79, at=998.0)]))
    assert monitor.problems() == ["GPU 0 of local-h100 (GPU-0): LOST: GPU is lost"]
    assert [(node, xid.code) for node, xid in monitor.errors()] == [("local-h100", 79)]
