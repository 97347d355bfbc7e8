"""GPUs and machines as they are sampled, in the API and on the command line."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, GpuProcess, Reading
from stoker.sampling.sample import Sample
from tests.api.bodies import violations

GPUS, SAMPLES = "/stoker/v1/gpus", "/stoker/v1/nodes/local/samples"


def a_sample(at: float, busy: float) -> Sample:
    device = Device(index=0, uuid="GPU-0", product="NVIDIA H100", memory_bytes=80 << 30)
    lost = Device(index=1, uuid="GPU-1", product="NVIDIA H100", memory_bytes=80 << 30)
    return Sample(
        at=at,
        host={"cpu_percent": busy / 2},
        gpus=[
            Reading(device=device, values={"utilization_percent": busy, "power_watts": 300.0}),
            Reading(device=lost, fault=Fault.LOST, problem="GPU is lost"),
        ],
        processes=[GpuProcess(uuid="GPU-0", pid=7, memory_bytes=1024.0, sm_percent=None)],
    )


@pytest.fixture
def sampled(stoker: Stoker) -> float:
    """Five seconds of samples. Returns when they ended."""
    monitor, now = stoker.services.monitor, stoker.services.commands.clock.now()
    nodes = [node for node in stoker.store.world().nodes.values() if node.name == "local"]
    for n in range(5):
        monitor.hear(nodes, a_sample(now - 5 + n, 10.0 * n))
    return now


def test_they_are_listed_with_who_uses_them(http: TestClient, sampled: float) -> None:
    first, second = http.get(GPUS).json()["gpus"]
    assert (first["node"], first["uuid"], first["values"]["utilization_percent"]) == ("local", "GPU-0", 40.0)
    assert first["processes"] == [{"pid": 7, "memory_bytes": 1024.0, "sm_percent": None}] and first["jobs"] == []
    assert (second["fault"], second["problem"], second["values"]) == ("LOST", "GPU is lost", {})


def test_a_lost_one_is_a_problem_of_the_server(http: TestClient, sampled: float) -> None:
    problems = http.get("/stoker/v1/status").json()["problems"]
    assert "GPU 1 of local (GPU-1): LOST: GPU is lost" in problems


def test_what_a_machine_showed(http: TestClient, sampled: float) -> None:
    answer = http.get(f"{SAMPLES}?metrics=cpu_percent&since={sampled - 5}&until={sampled}&points=5")
    (host,) = answer.json()["samples"]
    assert (host["source"], host["seconds"], host["start"]) == ("", 1.0, (sampled - 5) // 1)
    assert next(x for x in host["series"][0]["mean"] if x is not None) == 0.0
    (coarse,) = http.get(f"{SAMPLES}?metrics=cpu_percent&since=-60&points=1").json()["samples"]
    (series,) = coarse["series"]
    assert (series["least"], series["mean"], series["greatest"]) == ([0.0], [10.0], [20.0])


@pytest.mark.parametrize(
    ("query", "field", "problem"),
    [
        ("metrics=utilisation_percent", "metrics", "did you mean utilization_percent?"),
        ("metrics=%00", "metrics", "docs/monitoring.md lists what is"),
        ("since=-1e9", "since", "a year at most"),
        ("since=10&until=5", "since", "begins before it ends"),
    ],
)
def test_what_cannot_be_asked(http: TestClient, query: str, field: str, problem: str) -> None:
    answer = http.get(f"{SAMPLES}?{query}")
    assert answer.status_code == 400 and problem in violations(answer)[field]


@pytest.mark.parametrize("query", ["points=0", "points=1001", "since=nan", "until=-1", "since=soon"])
def test_what_is_no_number_of_the_right_kind(http: TestClient, query: str) -> None:
    assert http.get(f"{SAMPLES}?{query}").status_code == 400


def test_a_node_that_is_not_there(http: TestClient) -> None:
    answer = http.get("/stoker/v1/nodes/locl/samples")
    assert answer.status_code == 404 and "did you mean local?" in answer.text


@pytest.mark.parametrize("stoker", [{"hold": False}], indirect=True)
def test_a_job_has_what_its_machines_showed_while_it_held_them(http: TestClient, stoker: Stoker) -> None:
    stoker.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody tells the engine
    http.post("/stoker/v1/projects/p/jobs:run", json={"name": "j", "command": ["true"], "workers": 1})
    assert http.get("/stoker/v1/projects/p/jobs/j/samples").status_code == 404, "it waits"
    stoker.loop.tick()
    nodes = [node for node in stoker.store.world().nodes.values() if node.name == "local"]
    stoker.services.monitor.hear(nodes, a_sample(stoker.services.commands.clock.now(), 80.0))
    found = http.get("/stoker/v1/projects/p/jobs/j/samples?metrics=cpu_percent&points=1").json()["samples"]
    assert [row["replica"] for row in found] == ["chief-0", "worker-0"]
    assert [row["series"][0]["greatest"] for row in found] == [[40.0], [40.0]]
    assert http.get("/stoker/v1/projects/p/jobs/j/samples?attempt=7").status_code == 404


@pytest.mark.parametrize("stoker", [{"sample_seconds": 0}], indirect=True)
def test_a_site_that_samples_nothing_says_so(http: TestClient) -> None:
    answer = http.get(SAMPLES)
    assert answer.status_code == 404 and "sample_seconds" in answer.text and http.get(GPUS).json() == {"gpus": []}
