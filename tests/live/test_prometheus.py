"""The real Prometheus scrapes a site, and finds what the dashboard and the alerts ask for. Skipped where it is not installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.sampling.sample import Sample
from tests.conftest import wait_until
from tests.gpu.nvml_library import Gpu, playing

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="Prometheus is not installed"),
]
MONITORING = Path(__file__).parents[2] / "monitoring"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def site(stoker: Stoker) -> Iterator[str]:
    """A site with jobs and two GPUs, one held, that is served; its address."""
    stoker.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody tells the engine
    doorless = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077), needs_token=False)
    with TestClient(doorless, "http://127.0.0.1:7077") as client:
        for n in range(20):
            body = {"name": f"j{n}", "command": ["true"], "rehearse": True, "gpus": 1, "workers": 30}
            client.post("/stoker/v1/projects/p/jobs:run", json=body)
    stoker.loop.tick()
    port = free_port()
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    ended = threading.Event()
    held = next(iter(stoker.store.world().attempts.values())).placements[0].devices[0]
    playing_on = threading.Thread(target=play, args=(stoker, held, ended))
    playing_on.start()
    yield f"127.0.0.1:{port}"
    ended.set()
    playing_on.join()
    server.should_exit = True
    thread.join()


def play(stoker: Stoker, held: str, ended: threading.Event) -> None:
    """Sample two GPUs, of which a job holds one, again and again."""
    nodes = [node for node in stoker.store.world().nodes.values() if node.name == "local"]
    with playing(Gpu(uuid=held), Gpu(uuid="GPU-1")):
        reader = NvmlDriver().reader()
        assert reader is not None
        while not ended.wait(0.5):
            host = {"cpu_percent": 50.0, "host_memory_used_bytes": 1.0, "host_memory_total_bytes": 2.0}
            host |= dict.fromkeys(
                ("disk_read_bytes", "disk_written_bytes", "network_sent_bytes", "network_received_bytes"), time.time()
            )
            stoker.services.monitor.hear(nodes, Sample(at=time.time(), host=host, gpus=reader.read(slow=True)))
        reader.close()


@pytest.fixture
def prometheus(site: str, stoker: Stoker, tmp_path: Path) -> Iterator[str]:
    """A Prometheus that scrapes it, configured as monitoring/prometheus.yml says; its address."""
    (tmp_path / "stoker-token").write_text(stoker.services.tokens.create("prometheus", is_for_metrics=True)[0])
    config = (MONITORING / "prometheus.yml").read_text().replace("127.0.0.1:7077", site).replace("15s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    port = free_port()
    words = ["--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(["prometheus", *words], cwd=tmp_path, stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


def asked(prometheus: str, query: str) -> list[Any]:
    try:
        found = httpx.get(f"{prometheus}/api/v1/query", params={"query": query})
    except httpx.TransportError:
        return []  # it begins just now
    if found.status_code == 503:
        return []  # and reads what it has kept
    answer = found.json()
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


@pytest.mark.parametrize("stoker", [{"hold": False}], indirect=True)
def test_every_panel_finds_what_it_asks_for(prometheus: str) -> None:
    assert wait_until(lambda: asked(prometheus, 'up{job="stoker"} == 1'))
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("[5m]", "[5s]")
            assert wait_until(lambda query=query: asked(prometheus, query)), panel["title"]
    assert len(panels) >= 18
    job = asked(prometheus, "avg by (job) (DCGM_FI_DEV_GPU_UTIL * on (UUID) group_right () stoker_gpu_job_info)")
    assert job[0]["value"][1] == "90"


def test_alerts_are_well_formed_and_fire_when_they_should(tmp_path: Path) -> None:
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stoker", [{"hold": False}], indirect=True)
def test_what_is_told_has_the_form_that_prometheus_asks_for(site: str, stoker: Stoker) -> None:
    text = httpx.get(f"http://{site}/metrics", headers={"Authorization": f"Bearer {stoker.tokens.token}"}).text
    ours = "\n".join(line for line in text.splitlines() if "DCGM" not in line) + "\n"
    for told in (text, ours):
        done = subprocess.run(["promtool", "check", "metrics"], input=told, capture_output=True, text=True, check=False)
        problems = [
            line for line in done.stderr.splitlines() if "DCGM" not in line
        ]  # whose names are not ours to choose
        assert not problems, problems
