"""`stoker why`, and `--dry-run`."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.client.answers import Explanation
from tests.conftest import Server, wait_until

from ..conftest import Cli

GPU = ("--gpus", "4", "--gpu-type", "T4")


def test_who_waits_for_whom(served: Cli, server: Server) -> None:
    body = {"command": ["sleep", "600"], "gpus": 4, "gpu_type": "T4", "workers": 9}
    for name in ("why_holds", "why_waits"):
        server.client.run("local", {"name": name, **body})
    try:
        wait_until(lambda: server.client.details("local", "why_holds")["state"] == "RUNNING")
        lines = served("why", "why_waits").out.splitlines()
        assert lines[0].startswith("why_waits waits: needs 10 × 4 NVIDIA_TESLA_T4")
        assert any(line.startswith("  held by  why_holds (40 GPUs, ends ") for line in lines)
        (starts,) = (line for line in lines if line.startswith("  starts   "))
        assert starts.endswith(("; why_holds has to end", ", when why_holds ends")), starts
        found = json.loads(served("why", "why_waits", "--json").out)
        assert found["held_by"] == ["local/why_holds"] and found["starts"]["waits_for"] == "local/why_holds"
        assert served("why", "why_holds").out.splitlines()[1].startswith("  ends     ")
        why = Explanation.of(server.client.explain("local", "why_waits"))
        assert why.starts is not None and why.starts.high is not None and why.queue == "default"
        planned = served("run", "--dry-run", *GPU, "--workers", "9", "--", "true")
        assert " would " in planned.out.splitlines()[0] and "behind   why_waits" in planned.out
    finally:
        for name in ("why_waits", "why_holds"):
            server.client.cancel("local", name)


def test_a_success_says_what_it_cost_how_it_trained_and_where_its_files_are(served: Cli, server: Server) -> None:
    steps = "import stoker\nfor n in range(3): stoker.step(loss=0.5 / (n + 1))"
    body = {"command": ["python", "-c", steps], "job_dir": "gs://mine/why_done"}
    server.client.run("local", {"name": "why_done", **body})
    wait_until(lambda: server.client.details("local", "why_done")["state"] == "SUCCEEDED")
    lines = served("why", "why_done").out.splitlines()
    assert lines[0].startswith("why_done is SUCCEEDED, ended ")
    assert any(line.startswith("  ran      ") for line in lines) and any(
        line.startswith("  costs    ") for line in lines
    )
    assert any(line.startswith("  trained  3 steps") and "loss 0.1667" in line for line in lines), lines
    assert any("files of gs://mine/why_done are in" in line for line in lines)


def test_a_dry_run_of_a_command_writes_nothing(served: Cli, server: Server) -> None:
    (served.folder / "train.py").write_text("print(1)")
    ran = served("run", "--name", "dry_1", "--dry-run", "--", "python", "train.py")
    assert ran.code == 0 and ran.out.splitlines()[0] == "dry_1 would start now." and ran.err == ""
    assert "dry_1" not in served("jobs", "list").out
    assert json.loads(served("run", "--dry-run", "--json", "--", "true").out)["is_free"] is True


def test_a_dry_run_of_a_training_uploads_nothing(served: Cli, server: Server, trainer: Path) -> None:
    flags = ("--region", "us-central1", "--module-name", "trainer.task", "--package-path", str(trainer))
    before = sorted((server.home / "buckets").rglob("*"))
    ran = served("jobs", "submit", "training", "dry_2", *flags, "--scale-tier", "basic", "--dry-run")
    assert ran.code == 0 and ran.out.startswith("dry_2 would start now."), ran.err
    assert "costs    $" in ran.out and sorted((server.home / "buckets").rglob("*")) == before
    as_json = served("jobs", "submit", "training", "dry_2", *flags, "--scale-tier", "basic", "--dry-run", "--json")
    assert json.loads(as_json.out)["cost"]["usd_per_hour"] > 0


def test_what_is_refused_for_want_of_room_uploads_nothing(served: Cli, server: Server, trainer: Path) -> None:
    (served.folder / "data.bin").write_bytes(b"x" * 1000)
    before = sorted((server.home / "buckets").rglob("*"))
    ran = served("run", "--gpus", "64", "--gpu-type", "T4", "--", "true")
    assert ran.code == 6 and "no node here could ever hold" in ran.err and "uploaded" not in ran.err
    flags = ("--region", "us-central1", "--module-name", "trainer.task", "--package-path", str(trainer))
    ran = served("jobs", "submit", "training", "huge", *flags, "--scale-tier", "basic-tpu")
    assert ran.code == 6 and "uploaded" not in ran.err
    assert sorted((server.home / "buckets").rglob("*")) == before


def test_a_path_of_a_bucket_that_is_not_there_is_told(served: Cli, server: Server) -> None:
    (server.home / "buckets" / "gs" / "my-data" / "mnist").mkdir(parents=True)
    words = (
        "--job-dir",
        "gs://my-data/out",
        "--",
        "true",
        "--data=gs://my-data/mnsit",
        "gs://my-data/mnist",
        "gs://my-data/out/x",
    )
    ran = served("run", *words)
    assert ran.code == 0 and ran.err.count("is not there yet") == 1, ran.err
    assert "gs://my-data/mnsit is not there yet; did you mean gs://my-data/mnist?" in ran.err


def test_a_dry_run_is_refused_as_the_submission_would_be(served: Cli) -> None:
    ran = served("run", "--dry-run", "--gpus", "64", "--gpu-type", "T4", "--", "true")
    assert ran.code == 6 and "no node here could ever hold" in ran.err
    ran = served("jobs", "submit", "training", "dry_3", "--scale-tier", "basic", "--dry-run")
    assert (ran.code == 6 and "trainingInput" in ran.err) or "training_input" in ran.err or "module" in ran.err
    assert served("run", "--json", "--", "true").code == 2
