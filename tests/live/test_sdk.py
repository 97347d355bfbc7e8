"""The SDK against a real server that runs jobs, and that is restarted while somebody listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoker as sdk
from stoker.client import connection
from tests.conftest import Server


def free_port() -> int:
    """A port that nobody listens on: a server that is restarted must be found again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


pytestmark = pytest.mark.live
FLAGS = (f"--port={free_port()}", "--fake=2x4xT4")

PROGRAM = """
import os, sys, time
print("epochs", sys.argv[1:], "seed", os.environ.get("SEED"))
n = 0
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    print("line", n, flush=True)
    n += 1
    time.sleep(0.05)
if os.environ.get("STOKER_JOB_DIR"):
    os.makedirs(os.environ["STOKER_JOB_DIR"], exist_ok=True)
    with open(os.environ["STOKER_JOB_DIR"] + "/model", "w") as file:
        file.write("trained")
print("last", n, file=sys.stderr, flush=True)
if os.environ.get("WORLD_SIZE", "1") != "1" and os.environ["STOKER_ROLE"] == "chief":
    time.sleep(1.5)  # the others say something as well, before it ends the job
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture(autouse=True)
def folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a program; the SDK at the home of the server."""
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_HOME", str(server.home))
    yield tmp_path
    connection.use(None)


def test_a_script_from_submission_to_its_files() -> None:
    job = sdk.submit("train.py", gpus=1, gpu_type="T4", workers=1, env={"SEED": "1"}, job_dir="gs://sdk-bucket/out")
    lines = list(job.logs(follow=True))
    assert job.wait() == job.state == "SUCCEEDED"
    assert {line.replica for line in lines} == {"chief-0", "worker-0"}
    assert [line.text for line in lines if line.stream == "err"].count("last 0") == 2
    assert [line.sequence for line in lines] == sorted({line.sequence for line in lines})
    metrics = job.metrics()
    assert metrics.running_seconds > 0 and metrics.attempts == 1
    assert metrics.accelerator_hours == pytest.approx(metrics.machine_hours) and metrics.machine_hours > 0
    took = job.describe()["ended_at"] - job.describe()["submitted_at"]
    assert metrics.queued_seconds + metrics.preparing_seconds + metrics.running_seconds == pytest.approx(took, abs=0.01)
    assert [found.name for found in job.artifacts()] == ["model"]
    assert job.download("model").read_text() == "trained"


def test_what_fails_is_raised_where_somebody_waits() -> None:
    job = sdk.submit("train.py", env={"CODE": "7"})
    with pytest.raises(sdk.JobFailed) as failed:
        job.wait()
    assert (failed.value.exit_code, failed.value.state) == (7, "FAILED")
    assert "status of 7" in job.explain().text


def test_waiting_has_an_end(folder: Path) -> None:
    job = sdk.submit("train.py", args=[folder / "never"])
    with pytest.raises(TimeoutError):
        job.wait(timeout_seconds=0.5)
    assert not job.is_done
    job.cancel()
    assert job.wait(check=False) == "CANCELLED"


def test_whoever_waits_for_room_is_told_why(folder: Path) -> None:
    first, second = (sdk.submit("train.py", args=[folder / "end"], gpus=4, workers=1) for _ in range(2))
    for _ in first.logs(follow=True):
        break
    found = second.explain()
    assert (found.state, found.code, found.position) == ("QUEUED", "NO_ROOM", 1)
    assert found.held_by == (f"local/{first.name}",)
    (folder / "end").touch()
    assert second.wait() == "SUCCEEDED"
    assert [job.name for job in sdk.jobs(limit=2)] == [second.name, first.name]


@pytest.mark.parametrize("kill", [False, True])
def test_no_line_is_lost_when_the_server_is_restarted(server: Server, folder: Path, kill: bool) -> None:
    job = sdk.submit("train.py", args=[folder / "end"])
    seen = []
    for line in job.logs(follow=True, stream="out"):
        seen.append(line.text)
        if len(seen) == 5:
            server.restart(kill=kill)
        if len(seen) == 10:
            (folder / "end").touch()
    assert seen[1:] == [f"line {n}" for n in range(len(seen) - 1)] and len(seen) > 10
    assert job.wait() == "SUCCEEDED"
