"""What Prometheus is told, read back by its own parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.dialects.prometheus.gpus import lines_of
from stoker.app import Stoker
from stoker.gpu.device import Device
from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.gpu.reading import Fault, Reading
from stoker.sampling.sample import Sample
from tests.api.bodies import violations
from tests.gpu.nvml_library import Gpu, playing

OFFICIAL = {
    "DCGM_FI_DEV_GPU_TEMP": 60.0,
    "DCGM_FI_DEV_POWER_USAGE": 500.0,
    "DCGM_FI_DEV_SM_CLOCK": 1980.0,
    "DCGM_FI_DEV_GPU_UTIL": 90.0,
    "DCGM_FI_DEV_FB_USED": 20.0 * 1024,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.3,
}
"""What NVIDIA's dashboard (Grafana 12239) asks for, in DCGM's units."""


def families(http: TestClient) -> dict[str, Metric]:
    answer = http.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def hear(stoker: Stoker, *readings: Reading, host: dict[str, float] | None = None) -> None:
    nodes = [node for node in stoker.store.world().nodes.values() if node.name == "local"]
    at = stoker.services.commands.clock.now()
    stoker.services.monitor.hear(nodes, Sample(at=at, host=host or {}, gpus=readings))


@pytest.fixture
def readings() -> Iterator[list[Reading]]:
    """Two GPUs as NVML reads them, the second without GPM and in a fault, the first with a part."""
    part = Gpu(uuid="MIG-1", name="NVIDIA H100 MIG 1g.10gb", memory=10 << 30, used=1 << 30)
    with playing(Gpu(parts=[part]), Gpu(uuid="GPU-1", gpm=None)):
        reader = NvmlDriver().reader()
        assert reader is not None
        yield list(reader.read(slow=True))
        reader.close()


def test_gpus_bear_dcgms_names_units_and_labels(http: TestClient, stoker: Stoker, readings: list[Reading]) -> None:
    hear(stoker, *readings)
    found = families(http)
    for name, value in OFFICIAL.items():
        sample = found[name].samples[0]
        assert (sample.name, sample.value) == (name, value)
        assert sample.labels == {
            "gpu": "0",
            "UUID": "GPU-0",
            "pci_bus_id": "00000000:00:00.0",
            "device": "nvidia0",
            "modelName": "NVIDIA H100 80GB HBM3",
            "hostname": "local",
        }
    (part,) = [sample for sample in found["DCGM_FI_DEV_FB_USED"].samples if sample.labels["UUID"] == "MIG-1"]
    assert (part.labels["GPU_I_PROFILE"], part.labels["GPU_I_ID"], part.value) == ("1g.10gb", "1", 1024.0)
    energy = found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
    assert energy.type == "counter" and energy.samples[0].value == 1_000_000


def test_what_a_card_does_not_tell_has_no_series(http: TestClient, stoker: Stoker, readings: list[Reading]) -> None:
    hear(stoker, *readings)
    tensor = families(http)["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"]
    assert {sample.labels["UUID"] for sample in tensor.samples} == {"GPU-0", "MIG-1"}
    assert not any(sample.value != sample.value for family in families(http).values() for sample in family.samples)
    assert not any("pcie_sent" in name for name in families(http))


def test_faults_are_told(http: TestClient, stoker: Stoker) -> None:
    device = Device(index=0, uuid="GPU-9", product="NVIDIA H100", memory_bytes=1)
    hear(stoker, Reading(device=device, fault=Fault.STUCK, problem="…"))
    (sample,) = families(http)["stoker_gpu_fault"].samples
    assert sample.labels == {"UUID": "GPU-9", "node": "local", "fault": "STUCK"}
    assert "DCGM_FI_DEV_GPU_UTIL" not in families(http)


@pytest.mark.parametrize("stoker", [{"hold": False}], indirect=True)
def test_jobs_are_joined_on_and_multiply_nothing(http: TestClient, stoker: Stoker) -> None:
    stoker.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody tells the engine
    for n in range(30):
        body: dict[str, Any] = {"name": f"j{n}", "command": ["true"], "rehearse": True, "gpus": 2}
        assert http.post("/stoker/v1/projects/p/jobs:run", json=body).status_code == 200
    stoker.loop.tick()
    device = next(iter(stoker.store.world().attempts.values())).placements[0].devices[0]
    one = Device(index=0, uuid=device, product="Tesla T4", memory_bytes=1)
    hear(
        stoker,
        Reading(device=one, values={"utilization_percent": 7.0}),
        host={"cpu_percent": 50.0, "disk_read_bytes": 5.0},
    )
    found = families(http)
    assert len(found["DCGM_FI_DEV_GPU_UTIL"].samples) == 1
    held = found["stoker_gpu_job_info"].samples
    assert {"p/j0"} <= {sample.labels["job"] for sample in held} and {s.labels["UUID"] for s in held} == {device}
    states = {(s.labels["queue"], s.labels["state"]): s.value for s in found["stoker_jobs"].samples}
    assert sum(states.values()) == 30
    assert found["stoker_node_cpu_ratio"].samples[0].value == 0.5
    assert found["stoker_node_disk_read_bytes"].samples[0].name == "stoker_node_disk_read_bytes_total"


def test_who_scrapes_too_often_gets_the_answer_of_a_moment_ago(http: TestClient, stoker: Stoker) -> None:
    texts = {http.get("/metrics").text for _ in range(50)}
    assert len(texts) <= 3


def test_a_token_for_metrics_opens_nothing_else(stoker: Stoker) -> None:
    text, made = stoker.services.tokens.create("prometheus", is_for_metrics=True)
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {text}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers) as scraper:
        assert scraper.get("/metrics").status_code == 200 and made.is_for_metrics
        for path in ("/stoker/v1/status", "/stoker/v1/jobs", "/metrics/x", "/stoker/v1/gpus", "/v1/projects/p/jobs"):
            assert scraper.get(path).status_code == 403, path
        assert scraper.post("/metrics").status_code == 403
    user, _ = stoker.services.tokens.create("ada")
    with TestClient(app, "http://127.0.0.1:7077", headers={"Authorization": f"Bearer {user}"}) as other:
        assert other.get("/metrics").status_code == 403, "it names the jobs of all"


def test_such_a_token_is_no_other(http: TestClient) -> None:
    answer = http.post("/stoker/v1/tokens", json={"name": "p", "metrics": True, "admin": True})
    assert answer.status_code == 400 and "opens /metrics alone" in violations(answer)["metrics"]
    made = http.post("/stoker/v1/tokens", json={"name": "p", "metrics": True}).json()
    assert made["metrics"] and not made["admin"]


@pytest.mark.parametrize("stoker", [{"metrics_hpc_job": True}], indirect=True)
def test_by_a_switch_each_job_has_series_of_its_own(http: TestClient, stoker: Stoker) -> None:
    hear(stoker, Reading(device=Device(index=0, uuid="GPU-0", product="T4", memory_bytes=1), values={"xid": 0.0}))
    (alone,) = families(http)["DCGM_FI_DEV_XID_ERRORS"].samples
    assert "hpc_job" not in alone.labels
    now = stoker.services.monitor.gpus()
    held = {"GPU-0": [("p/a", "chief-0"), ("p/a", "worker-0"), ("p/b", "chief-0")]}
    text = "".join(lines_of(now, held, hpc_job=True))
    (found,) = [f for f in text_string_to_metric_families(text) if f.name == "DCGM_FI_DEV_XID_ERRORS"]
    assert [sample.labels["hpc_job"] for sample in found.samples] == ["p/a", "p/b"]
    assert text.count("DCGM_FI_DEV_XID_ERRORS{") == 2 and "".join(lines_of(now, held)).count("XID_ERRORS{") == 1


def test_answers_are_timed_by_dialect_and_class_of_status(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.token}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers) as admin:
        for path in ("/stoker/v1/status", "/stoker/v1/status", "/v1/projects/p/jobs/none", "/nothing"):
            admin.get(path)
        admin.get("/stoker/v1/status", headers={"Authorization": "Bearer wrong"})
        found = families(admin)
    counts = {
        tuple(sample.labels[name] for name in ("dialect", "method", "status")): sample.value
        for sample in found["stoker_http_answer_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert counts["native", "GET", "2xx"] == 2 and counts["aiplatform_v1", "GET", "4xx"] == 1
    assert sum(count for (dialect, _, status), count in counts.items() if (dialect, status) == ("none", "4xx")) == 1, (
        "who is not let in is not counted"
    )


def test_the_loop_and_held_time_have_families(http: TestClient) -> None:
    found = families(http)
    assert {sample.name for sample in found["stoker_loop_round_seconds"].samples} == {
        "stoker_loop_round_seconds_count",
        "stoker_loop_round_seconds_sum",
    }
    assert found["stoker_loop_longest_round_seconds"].samples[0].value == 0.0
    assert found["stoker_held_seconds"].samples == []
