"""`stoker rehearse`: the same arguments as submit, on nodes made for the job."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Cli
from tests.conftest import Server, wait_until

TOGETHER = """
import os, pathlib, sys, time

role, index = os.environ["STOKER_ROLE"], os.environ["STOKER_INDEX"]
print("arguments", sys.argv[1:])
print("role", role, index, flush=True)
meeting = pathlib.Path("MEETING")
(meeting / f"{role}-{index}").touch()
while role == "chief" and len(list(meeting.iterdir())) < 3:  # a job is over when its chief is
    time.sleep(0.02)
"""


def test_it_takes_the_arguments_of_submit_and_needs_no_name(
    served: Cli, server: Server, trainer: Path, tmp_path: Path
) -> None:
    (tmp_path / "meeting").mkdir()
    (trainer / "task.py").write_text(TOGETHER.replace("MEETING", str(tmp_path / "meeting")))
    ran = served(
        *("rehearse", "--package-path", "trainer", "--module-name", "trainer.task", "--region", "us-central1"),
        *(
            "--scale-tier",
            "custom",
            "--master-machine-type",
            "n1-highmem-96",
            "--master-accelerator",
            "count=4,type=t4",
        ),
        *("--worker-machine-type", "n1-highmem-96", "--worker-count", "2", "--stream-logs", "-q", "--", "a", "b"),
    )
    assert ran.code == 0, ran.err
    assert sorted(line for line in ran.out.splitlines() if "role" in line) == [
        "chief-0   role chief 0",
        "worker-0  role worker 0",
        "worker-1  role worker 1",
    ]
    assert ran.out.count("arguments ['a', 'b']") == 3
    assert re.search(r"✓ rehearsal_\d{8}_\d{6}_[0-9a-f]{4} succeeded in", ran.err)
    wait_until(lambda: not [node for node in server.client.nodes() if node["name"].startswith("rehearsal")])


def test_it_can_be_left_alone(served: Cli, trainer: Path) -> None:
    ran = served("rehearse", "by_name", "--async", "--package-path", "trainer", "--module-name", "trainer.task")
    assert ran.code == 0 and "stoker jobs stream-logs by_name" in ran.err
    assert served("wait", "by_name").code == 0


def test_what_would_come_of_it(served: Cli, server: Server, trainer: Path) -> None:
    words = ("rehearse", "--dry-run", "--package-path", "trainer", "--module-name", "trainer.task")
    gpus = (
        "--scale-tier",
        "custom",
        "--master-machine-type",
        "n1-highcpu-16",
        "--master-accelerator",
        "count=4,type=t4",
    )
    ran = served(*words, *gpus)
    assert ran.code == 0 and ran.out.startswith("rehearsal_") and " would start now." in ran.out, ran.err
    assert "on rehearsal-local-rehearsal_" in ran.out and "4 NVIDIA_TESLA_T4" in ran.out
    assert not [node for node in server.client.nodes() if node["name"].startswith("rehearsal")]
    assert served("rehearse", "--json", "--package-path", "trainer").code == 2


def test_it_ends_with_the_programs_result(served: Cli, trainer: Path) -> None:
    words = ("--package-path", "trainer", "--module-name", "trainer.task", "--", "--fail")
    assert served("rehearse", *words).code == 7


def test_what_can_never_run_cannot_be_rehearsed_either(served: Cli, trainer: Path) -> None:
    ran = served(
        "rehearse", "never", "--package-path", "trainer", "--module-name", "trainer.task", "--scale-tier", "custom"
    )
    assert ran.code == 6 and "master_type" in ran.err
