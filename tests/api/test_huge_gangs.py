"""A request of some bytes that asks for a billion replicas: refused at once, in every language, with the most that fits."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import PACKAGE, a_run, custom, violations

MASTER = {"imageUri": "gcr.io/cloud-ml-public/training/tensorflow-cpu.2-11"}
HUGE: dict[str, tuple[str, Any]] = {
    "a command": ("/stoker/v1/projects/p/jobs:run", a_run(workers=10_000)),
    "a small command": ("/stoker/v1/projects/p/jobs:run", a_run(workers=10_000, vcpus=0.001)),
    "a command to rehearse": ("/stoker/v1/projects/p/jobs:run", a_run(workers=10_000, rehearse=True)),
    "a dry run": ("/stoker/v1/projects/p/jobs:dryRunCommand", a_run(workers=10_000)),
    "v1": ("/v1/projects/p/jobs", custom(workerType="n1-standard-4", workerCount="1000000000")),
    "v1, two groups": (
        "/v1/projects/p/jobs",
        custom(
            workerType="n1-standard-4",
            workerCount=str(10**9),
            parameterServerType="n1-standard-4",
            parameterServerCount=str(10**9),
        ),
    ),
    "v1, as many as a field may": ("/v1/projects/p/jobs", custom(workerType="n1-standard-4", workerCount="10000")),
    "v1, a rehearsal": (
        "/stoker/v1/projects/p/jobs:rehearse",
        custom(workerType="n1-standard-4", workerCount="10000"),
    ),
    "v1, the most that a field holds": (
        "/v1/projects/p/jobs",
        custom(workerType="n1-standard-4", workerCount=str(2**63 - 1)),
    ),
    "Vertex": (
        "/v1/projects/p/locations/us-central1/customJobs",
        {
            "displayName": "vx",
            "jobSpec": {
                "workerPoolSpecs": [
                    {
                        "machineSpec": {"machineType": "n1-standard-4"},
                        "replicaCount": str(count),
                        "pythonPackageSpec": {
                            "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest",
                            "packageUris": [PACKAGE],
                            "pythonModule": "trainer.task",
                        },
                    }
                    for count in (1, 10**9)
                ]
            },
        },
    ),
}


@pytest.mark.parametrize(("path", "body"), HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("stoker", [{"local_replicas": 200}], indirect=True)
def test_it_is_refused_at_once(http: TestClient, stoker: Stoker, path: str, body: Any) -> None:
    with stoker.services.files.write(PACKAGE) as file:
        file.write(b"a package")
    http.post(path, json=body)  # what is imported when it is first needed
    tracemalloc.start()
    begin = time.process_time()
    refused = http.post(path, json=body)
    seconds, (_, peak) = time.process_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.status_code == 400
    assert seconds < 1.0
    assert peak < 4 << 20
    assert not list(stoker.services.store.jobs("p"))
    assert any(most in said for said in violations(refused).values() for most in ("at most 200", "of at most 10000"))
