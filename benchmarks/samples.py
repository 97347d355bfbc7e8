"""What it costs to see GPUs: the process that samples 8 of them, and a server that keeps the samples of 10,000."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from stoker.api.dialects.prometheus.routes import page
from stoker.app import build
from stoker.config import read_config
from stoker.gpu.device import Device
from stoker.gpu.drivers.fake import FakeDriver
from stoker.gpu.metrics import METRICS
from stoker.gpu.reading import Reading
from stoker.sampling.history import History
from stoker.sampling.monitor import COUNTERS, Monitor
from stoker.sampling.sample import Sample, from_line, to_line
from tests.builders import a_node

from .measure import Row

RUNS = 3
GPUS, GPUS_OF_NODE = 10_000, 8
SCRAPED_GPUS = 1_000
_SECONDS = 10.0  # from one sample of a node to the next
_SITE_SECONDS = 180
_BEGAN = 1_800_000_000.0 - 1_800_000_000.0 % 3600
_VALUES = [metric.name for metric in METRICS]

AGENT = """
import sys
sys.path.insert(0, {root!r})
from tests.gpu.nvml_library import Gpu, playing
from stoker.sampling import agent
with playing(*(Gpu(uuid=f"GPU-{{n}}", processes={{n + 1: (1 << 30, 50)}}) for n in range({gpus}))):
    agent.main(["1"])
"""
"""The sampling process on a stand-in for the driver's library: what the library itself takes is not in it."""


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    found = [_agent() for _ in range(runs)]
    of = f"the process that samples {GPUS_OF_NODE} GPUs every second"
    yield Row(what=f"{of}: CPU", unit="%", samples=[100 * cpu for cpu, _, _ in found], budget=1.0)
    yield Row(what=" least of it: the same without GPUs", unit="%", samples=[100 * bare for _, bare, _ in found])
    yield Row(what=f"{of}: memory (RSS)", unit="MB", samples=[memory / 1e6 for _, _, memory in found], budget=80.0)
    sites = [_site() for _ in range(runs)]
    site = f"{GPUS:,} GPUs, a sample of each node every {_SECONDS:g} s"
    yield Row(what=f"{site}: CPU of taking them in", unit="%", samples=[100 * cpu for cpu, *_ in sites], budget=20.0)
    yield Row(
        what=" of this: reading lines as another machine sends them", unit="%", samples=[100 * x for _, x, *_ in sites]
    )
    yield Row(what=f"{site}: memory for them", unit="MB", samples=[memory / 1e6 for *_, memory, _, _ in sites])
    yield Row(what=f"{site}: disk, an hour", unit="MB", samples=[disk / 1e6 for *_, disk, _ in sites])
    yield Row(
        what=f"/metrics of {SCRAPED_GPUS:,} GPUs, all that Hopper tells",
        unit="ms",
        samples=[1000 * _metrics() for _ in range(runs)],
        budget=300.0,
    )
    yield Row(
        what="a chart of 24 hours of a job on 8 GPUs, all its numbers",
        unit="ms",
        samples=[1000 * chart for *_, chart in sites],
        budget=200.0,
    )


def _metrics() -> float:
    """The seconds of an answer to Prometheus about 1,000 GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        flags = {"home": folder, "hold": True}
        made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
        draw, now = random.Random(3), made.services.commands.clock.now()
        for n in range(SCRAPED_GPUS // GPUS_OF_NODE):
            node = a_node(name=f"n{n}", gpus=GPUS_OF_NODE)
            sample = _sample(tuple(f"GPU-{n}-{d}" for d in range(GPUS_OF_NODE)), draw)
            made.services.monitor.hear([node], Sample(at=now, host=sample.host, gpus=sample.gpus))
        begin = time.perf_counter()
        assert page(made.services).count(b"DCGM_FI_DEV_GPU_UTIL{") == SCRAPED_GPUS
        took = time.perf_counter() - begin
        made.store.close()
    return took


def _agent() -> tuple[float, float, int]:
    """The CPU of the process with GPUs and without, as parts of a core, and its memory."""
    code = AGENT.format(root=str(Path(__file__).parents[1]), gpus=GPUS_OF_NODE)
    with_gpus, memory = _cpu_of([sys.executable, "-c", code])
    bare, _ = _cpu_of([sys.executable, "-m", "stoker.sampling.agent", "1"])
    return with_gpus, bare, memory


def _cpu_of(command: list[str], seconds: int = 20) -> tuple[float, int]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as lines:
        for _ in range(3):
            lines.readline()
        looked, begin, wall = psutil.Process(process.pid), _spent(process.pid), time.monotonic()
        for _ in range(seconds):
            lines.readline()
        cpu, memory = (_spent(process.pid) - begin) / (time.monotonic() - wall), looked.memory_info().rss
        process.kill()
    process.wait()
    return cpu, memory


def _spent(pid: int) -> float:
    found = psutil.Process(pid).cpu_times()
    return found.user + found.system


def _site() -> tuple[float, float, float, float, float]:
    """CPU of taking in, of that for reading lines, memory, disk of an hour, seconds of a chart."""
    draw = random.Random(1)
    nodes = [a_node(name=f"n{n}", gpus=GPUS_OF_NODE) for n in range(GPUS // GPUS_OF_NODE)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.db"
        clock = [_BEGAN]
        history = History(path, COUNTERS, clock=lambda: clock[0])
        monitor = Monitor(history, lambda: clock[0])
        before = psutil.Process().memory_info().rss
        read_seconds = took_seconds = 0.0
        lines = [to_line(_sample(node.devices, draw)) for node in nodes]
        for _ in range(int(_SITE_SECONDS / _SECONDS)):
            for node, line in zip(nodes, lines, strict=True):
                begin = time.process_time()
                sample = from_line(line)
                read = time.process_time()
                monitor.hear([node], Sample(at=clock[0], host=sample.host, gpus=sample.gpus))
                read_seconds += read - begin
                took_seconds += time.process_time() - begin
            clock[0] += _SECONDS
        memory = psutil.Process().memory_info().rss - before
        disk = sum(file.stat().st_size for file in path.parent.iterdir()) * 3600 / _SITE_SECONDS
        return took_seconds / _SITE_SECONDS, read_seconds / _SITE_SECONDS, memory, disk, _chart(Path(folder) / "day.db")


def _sample(devices: tuple[str, ...], draw: random.Random) -> Sample:
    gpus = [
        Reading(
            device=Device(index=n, uuid=uuid, product="NVIDIA H100 80GB HBM3", memory_bytes=80 << 30),
            values={name: round(draw.uniform(0, 1e4), 3) for name in _VALUES},
        )
        for n, uuid in enumerate(devices)
    ]
    return Sample(at=0.0, host={"cpu_percent": 50.0, "load": 3.0}, gpus=gpus)


def _chart(path: Path) -> float:
    """The seconds that a day of 8 GPUs takes to be read, as the API does."""
    clock = [_BEGAN]
    history = History(path, COUNTERS, clock=lambda: clock[0])
    devices = tuple(f"GPU-{n}" for n in range(GPUS_OF_NODE))
    draw = random.Random(2)
    values: Mapping[str, Mapping[str, float]] = {g.device.uuid: g.values for g in _sample(devices, draw).gpus}
    for _ in range(25 * 360):
        history.add("n0", clock[0], values)
        clock[0] += _SECONDS
    history.tidy()
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        for device in devices:
            assert history.points("n0", device, clock[0] - 86400, clock[0]).count > 200
        took.append(time.perf_counter() - begin)
    return statistics.median(took)
