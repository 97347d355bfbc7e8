"""Following a job with the real gcloud, unmodified; and the same requests by hand, where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.client.packaging import pack_trainer
from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live
needs_gcloud = pytest.mark.skipif(shutil.which("gcloud") is None, reason="the Google Cloud CLI is not installed")
FLAGS = ("--no-auth",)  # gcloud without an account sends no token
PROJECT = "log-readers"
COUNT = 60
TASK = f"""
import sys, time
for n in range({COUNT}):
    print("line", n, flush=True)
    time.sleep(0.02)
time.sleep(4)
sys.stderr.write("last words\\n")
sys.exit(int(sys.argv[1]))
"""
LINES = [f"line {n}" for n in range(COUNT)] + ["last words"]


@pytest.fixture(scope="module")
def package(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trainer that prints, is silent for a while, and ends with its last words."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "trainer").mkdir()
    (folder / "trainer/__init__.py").touch()
    (folder / "trainer/task.py").write_text(TASK)
    packed = pack_trainer(folder / "trainer", folder / "out")
    server.client.upload(packed.path, "gs://readers/trainer.tar.gz")
    return "gs://readers/trainer.tar.gz"


def submit(server: Server, name: str, package: str, code: int = 0) -> None:
    """A job, by the API."""
    training = {
        "region": "us-central1",
        "pythonModule": "trainer.task",
        "packageUris": [package],
        "args": [str(code)],
    }
    server.client.submit(PROJECT, {"jobId": name, "trainingInput": training})


def gcloud(server: Server, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it against our server."""
    settings = {
        "API_ENDPOINT_OVERRIDES_LOGGING": f"{server.found.url}/",
        "API_ENDPOINT_OVERRIDES_ML": f"{server.found.url}/",
        "AUTH_DISABLE_CREDENTIALS": "true",
        "CORE_PROJECT": PROJECT,
        "CORE_DISABLE_PROMPTS": "1",
        "CORE_DISABLE_USAGE_REPORTING": "1",
        "SURVEY_DISABLE_PROMPTS": "1",
        "ML_ENGINE_POLLING_INTERVAL": "1",
        "CONFIG": str(folder),
    }
    environment = {**os.environ, **{f"CLOUDSDK_{name}": value for name, value in settings.items()}}
    return subprocess.run(["gcloud", *words], env=environment, capture_output=True, text=True, timeout=120)


def rows(text: str) -> list[list[str]]:
    """Severity, time, task, trial and message of every line that stream-logs prints."""
    return [line.split("\t") for line in text.splitlines() if line.count("\t") == 4]


@needs_gcloud
@pytest.mark.campaign
def test_stream_logs(server: Server, package: str, tmp_path: Path) -> None:
    submit(server, "followed", package)
    began = time.monotonic()
    ended = gcloud(server, tmp_path, "ai-platform", "jobs", "stream-logs", "followed", "--polling-interval=1")
    assert ended.returncode == 0, ended.stderr
    found = rows(ended.stdout)
    assert [row[4] for row in found if row[2] == "master-replica-0" and "installed" not in row[4]] == LINES
    assert [row[0] for row in found if row[4] in ("line 0", "last words")] == ["INFO", "ERROR"]
    assert [row[4] for row in found if row[2] == "service"][-1] == "The job has succeeded."
    assert time.monotonic() - began < 60  # gcloud asks whether the job has ended every ten seconds


@needs_gcloud
@pytest.mark.campaign
def test_submit_and_stream_logs(server: Server, package: str, tmp_path: Path) -> None:
    words = ["--region", "us-central1", "--module-name", "trainer.task", "--packages", package, "--stream-logs"]
    ended = gcloud(server, tmp_path, "ai-platform", "jobs", "submit", "training", "failing", *words, "--", "3")
    assert ended.returncode == 1, ended.stderr  # for the job has failed
    found = rows(ended.stdout + ended.stderr)
    assert [row[4] for row in found if row[2] == "master-replica-0" and "installed" not in row[4]] == LINES
    severity, _, task, _, message = found[-1]
    assert (severity, task) == ("ERROR", "service")
    assert message.startswith("The job has failed. The replica master 0 exited with a non-zero status of 3.")


@needs_gcloud
@pytest.mark.campaign
def test_logging_read(server: Server, package: str, tmp_path: Path) -> None:
    submit(server, "read", package)
    wait_for_end(server, "read")
    filter = 'resource.type="ml_job" AND resource.labels.job_id="read" AND resource.labels.task_name:master'
    for order, expected in (("asc", LINES[:10]), ("desc", LINES[:-11:-1])):
        words = (f'{filter} AND NOT jsonPayload.message:"installed"', "--limit=10", f"--order={order}")
        ended = gcloud(server, tmp_path, "logging", "read", *words, "--format=value(jsonPayload.message)")
        assert (ended.returncode, ended.stdout.splitlines()) == (0, expected), ended.stderr


def test_the_same_requests_by_hand(server: Server, package: str) -> None:
    """What gcloud sends, its holding back of five seconds included; two empty answers after the end are the end."""
    submit(server, "by_hand", package)
    seen: list[dict[str, Any]] = []
    empty = 0
    with httpx.Client(base_url=server.found.url, trust_env=False) as http:
        while empty < 2:
            after = seen[-1]["timestamp"] if seen else "1970-01-01T01:00:00.000000000Z"
            before = datetime.now(UTC) - timedelta(seconds=5)
            new = [entry for entry in entries(http, "by_hand", after, before) if entry not in seen]
            seen += new
            is_over = "endTime" in http.get(f"/v1/projects/{PROJECT}/jobs/by_hand").json()
            empty = empty + 1 if not new and is_over and time.time() - 5 > end_of(http, "by_hand") else 0
            time.sleep(0.3)
    texts = [e["jsonPayload"]["message"] for e in seen if e["resource"]["labels"]["task_name"] == "master-replica-0"]
    assert [text for text in texts if "installed" not in text] == LINES
    assert seen[-1]["jsonPayload"]["message"] == "The job has succeeded."


def entries(http: httpx.Client, job: str, after: str, before: datetime) -> list[dict[str, Any]]:
    """One poll, as gcloud words it."""
    filter = (
        f'(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="{job}"'
        f' AND timestamp>="{after}" AND timestamp<"{before.isoformat()}"'
    )
    body = {
        "filter": filter,
        "orderBy": "timestamp asc",
        "pageSize": 1000,
        "resourceNames": [f"projects/{PROJECT}"],
    }
    answer = http.post("/v2/entries:list?alt=json", json=body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json().get("entries", [])
    return found


def end_of(http: httpx.Client, job: str) -> float:
    """When a job ended."""
    text = http.get(f"/v1/projects/{PROJECT}/jobs/{job}").json()["endTime"]
    return datetime.fromisoformat(text).timestamp() + 1  # it is cut to the second


def wait_for_end(server: Server, name: str) -> None:
    """Until it has ended."""
    wait_until(lambda: "endTime" in server.client.job(PROJECT, name), seconds=60)
