"""A real client of the v1 API, unmodified: google-api-python-client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from stoker.client.packaging import pack_trainer
from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live
FLAGS = ("--no-auth",)  # its anonymous credentials send no token
PARENT = "projects/real-client"


@pytest.fixture(scope="module")
def ml(server: Server) -> Iterator[Any]:
    from google.auth.credentials import AnonymousCredentials

    options = {"api_endpoint": server.found.url}
    client = build("ml", "v1", static_discovery=True, client_options=options, credentials=AnonymousCredentials())
    yield client.projects().jobs()
    client.close()


@pytest.fixture(scope="module")
def package(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a small trainer that prints its arguments."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "trainer").mkdir()
    (folder / "trainer/__init__.py").touch()
    (folder / "trainer/task.py").write_text("import sys\nprint('arguments', sys.argv[1:])\n")
    packed = pack_trainer(folder / "trainer", folder / "out")
    server.client.upload(packed.path, "gs://clients/trainer.tar.gz")
    return "gs://clients/trainer.tar.gz"


def a_body(name: str, package: str, **training: Any) -> dict[str, Any]:
    return {
        "jobId": name,
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "workerCount": 1,
            "workerType": "n1-standard-4",
            "region": "us-central1",
            "pythonModule": "trainer.task",
            "packageUris": [package],
            "args": ["--x", "1"],
            "jobDir": "gs://clients/out",
            **training,
        },
    }


def test_create_run_and_get(ml: Any, package: str, server: Server) -> None:
    created = ml.create(parent=PARENT, body=a_body("one", package)).execute()
    assert (created["state"], created["trainingInput"]["workerCount"]) == ("QUEUED", "1")
    job = wait_until(lambda: (j := ml.get(name=f"{PARENT}/jobs/one").execute())["state"] == "SUCCEEDED" and j)
    assert job["createTime"] <= job["startTime"] <= job["endTime"]
    texts = [e["text"] for e in server.client.stream("real-client", "one") if e["kind"] == "log"]
    expected = f"arguments ['--x', '1', '--job-dir', '{server.home / 'buckets/gs/clients/out'}']"
    assert expected in texts


def test_a_refusal_carries_its_violations(ml: Any, package: str) -> None:
    with pytest.raises(HttpError) as refused:
        ml.create(parent=PARENT, body=a_body("bad-id", package, workerType="n1-standard-5")).execute()
    assert refused.value.resp.status == 400
    fields = [v["field"] for v in refused.value.error_details[0]["fieldViolations"]]
    assert fields == ["job.job_id", "worker_type"]
    assert refused.value.reason.startswith("Field: job.job_id Error: ")


def test_list_patch_and_cancel(ml: Any, package: str) -> None:
    sleeper = a_body("sleeper", package, workerCount=0, scheduling={"maxRunningTime": "100s"})
    sleeper["trainingInput"].pop("workerType")
    ml.create(parent=PARENT, body=sleeper).execute()
    names = [job["jobId"] for job in ml.list(parent=PARENT, pageSize=1).execute()["jobs"]]
    assert names == ["sleeper"]
    patched = ml.patch(name=f"{PARENT}/jobs/sleeper", updateMask="labels", body={"labels": {"a": "b"}}).execute()
    assert patched["labels"] == {"a": "b"}
    assert ml.cancel(name=f"{PARENT}/jobs/sleeper", body={}).execute() == {}
    ended = ("CANCELLED", "SUCCEEDED")
    assert wait_until(lambda: ml.get(name=f"{PARENT}/jobs/sleeper").execute()["state"] in ended)


def test_of_nothing(ml: Any) -> None:
    with pytest.raises(HttpError) as missing:
        ml.get(name=f"{PARENT}/jobs/none").execute()
    assert missing.value.resp.status == 404
