"""Failures told apart by a real server, with real programs: what they died of, hangs, and places that are kept."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Server, wait_until


def submit(server: Server, name: str, *command: str, **more: Any) -> None:
    """Submit a plain command."""
    server.client.run("local", {"name": name, "command": list(command), **more})


def ended(server: Server, name: str) -> dict[str, Any]:
    """The job, once it has ended."""

    def found() -> dict[str, Any] | None:
        details: dict[str, Any] = server.client.details("local", name)
        return details if details["ended_at"] else None

    return wait_until(found)  # type: ignore[no-any-return]


def died_of(details: dict[str, Any]) -> tuple[str, str]:
    """The code and the evidence of a job's newest attempt."""
    found = details["attempts"][-1]["diagnosis"]
    return found["code"], found["evidence"]


@pytest.mark.parametrize(
    ("name", "code", "sign", "evidence"),
    [
        ("missing_module", "import no_such_module", "MISSING_MODULE", "No module named 'no_such_module'"),
        ("no_memory", "[0] * 10**15", "MEMORY_ERROR", "MemoryError"),
        ("own_error", "raise ValueError('it is Monday')", "ERROR", "ValueError: it is Monday"),
    ],
)
def test_what_a_program_died_of(server: Server, name: str, code: str, sign: str, evidence: str) -> None:
    submit(server, name, sys.executable, "-c", code)
    details = ended(server, name)
    assert details["state"] == "FAILED" and len(details["attempts"]) == 1
    assert died_of(details)[0] == sign and evidence in died_of(details)[1]
    shown = server.cli("why", name).stdout
    assert f"({sign})" in shown and evidence in shown and "not tried again" in shown


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("read_only", "open('/etc/stoker_was_here', 'w')"),
        ("hidden", f"open('{pwd.getpwuid(os.getuid()).pw_dir}/.no/x')"),
    ],
)
def test_what_a_sandbox_does_not_let_be_used(server: Server, name: str, code: str) -> None:
    if server.client.status()["isolation"]["level"] == 0:
        pytest.skip("nothing is in a sandbox here")
    submit(server, name, sys.executable, "-c", code)
    assert died_of(ended(server, name))[0] == "SANDBOX"
    assert "job_folders" in server.cli("why", name).stdout


def test_a_segmentation_fault_is_tried_again(server: Server, tmp_path: Path) -> None:
    mark = tmp_path / "crashed"
    submit(server, "segfault", "sh", "-c", f"test -e {mark} || {{ touch {mark}; kill -SEGV $$; }}")
    details = ended(server, "segfault")
    found = details["attempts"][0]["diagnosis"]
    assert (details["state"], found["code"], found["again"]) == ("SUCCEEDED", "SEGFAULT", "anywhere")
    assert found["decision"] == "it was tried again"


def test_one_that_is_killed_is_started_again_in_place(server: Server, tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    submit(server, "killed", "sh", "-c", f"test -e {mark} || {{ touch {mark}; kill -9 $$; }}")
    assert ended(server, "killed")["state"] == "SUCCEEDED"


def test_one_that_kills_itself_at_the_same_place_is_started_three_times(server: Server) -> None:
    submit(server, "suicidal", "sh", "-c", "date +%T; echo step 3; kill -9 $$")
    details = ended(server, "suicidal")
    assert details["state"] == "FAILED" and len(details["attempts"]) == 1
    assert server.client.metrics("local", "suicidal")["restarts"] == 2
    assert (
        "It is not started again: it ended in this way 3 times in a row, after the line 'step 3'." in details["message"]
    )
    assert "at the same place, 3 times in a row" in details["attempts"][0]["diagnosis"]["decision"]
    submit(server, "stubborn", "sh", "-c", "echo step 3; kill -9 $$", max_retries=4)
    details = ended(server, "stubborn")
    assert details["state"] == "FAILED" and len(details["attempts"]) == 5
    assert details["message"].endswith("It was tried 5 times.")


IN_STEP = """
import os, signal, sys
import torch, torch.distributed as together
together.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
try:
    for step in range(4):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step == 2 and together.get_rank() == 1 and os.environ["STOKER_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
except RuntimeError:
    signal.pause()  # as NCCL may: it waits for who is gone
together.barrier()
together.destroy_process_group()  # Gloo's threads may crash a process that ends while they are at work
"""


def test_one_of_several_in_step_that_is_killed_has_all_started_again(server: Server) -> None:
    submit(server, "in_step", sys.executable, "-c", IN_STEP, workers=1)
    details = ended(server, "in_step")
    assert [details["state"], *(attempt["cause"] for attempt in details["attempts"])] == [
        *("SUCCEEDED", "REPLICA_CRASHED", "COMPLETED")
    ], [attempt["diagnosis"] for attempt in details["attempts"]]
    assert server.client.metrics("local", "in_step")["restarts"] == 0, "none in place"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(server: Server, small_disk: Path) -> None:
    code = f"open('{small_disk}/x', 'wb').write(bytes(10**7))"
    submit(server, "full", sys.executable, "-c", code)
    assert died_of(ended(server, "full")) == ("NO_SPACE", "OSError: [Errno 28] No space left on device")
    submit(server, "full_temporary", sys.executable, "-c", code, env={"TMPDIR": str(small_disk)})
    sign, evidence = died_of(ended(server, "full_temporary"))
    assert sign in ("NO_SPACE", "DISK_FULL") and "No space left on device" in evidence


def test_one_that_hangs_is_tried_once_more_and_then_has_failed(server: Server) -> None:
    code = "import time; print('begins', flush=True); time.sleep(1000)"
    submit(server, "hanging", sys.executable, "-c", code, hang_seconds=1)
    details = ended(server, "hanging")
    assert [attempt["cause"] for attempt in details["attempts"]] == ["HUNG", "HUNG"]
    assert died_of(details)[0] == "HUNG" and "no output, no beat and no progress" in died_of(details)[1]
    said = [line["text"] for line in server.client.logs("local", "hanging", stream="service")]
    assert any("sleeping" in line for line in said), said


def test_a_beat_keeps_a_silent_program_alive(server: Server) -> None:
    beat = "open(os.environ['STOKER_BEAT_FILE'], 'w').close()"
    beats = f"import os, time\nprint(1, flush=True)\nfor n in range(15): {beat}; time.sleep(0.2)"
    submit(server, "beating", sys.executable, "-c", beats, hang_seconds=1)
    assert ended(server, "beating")["state"] == "SUCCEEDED"


@pytest.mark.campaign
def test_a_place_is_kept_after_a_failure_for_a_shell_until_it_is_released(server: Server) -> None:
    command = "echo made > here; exit 3"
    submit(server, "kept", "sh", "-c", command, env={"OWN": "its own"}, hold_seconds=600)

    def held() -> dict[str, Any] | None:
        replicas = [r for a in server.client.details("local", "kept")["attempts"] for r in a["replicas"]]
        return next((r for r in replicas if r["held_until"]), None)

    assert wait_until(held)["exit_code"] == 3
    wait_until(lambda: server.client.details("local", "kept")["state"] == "RUNNING")
    assert "is held after a failure until" in server.cli("jobs", "describe", "kept").stderr
    shell = server.cli("jobs", "shell", "kept", "--", "sh", "-c", "cat here; echo $OWN; exit 7")
    assert (shell.returncode, shell.stdout) == (7, "made\nits own\n"), shell.stderr
    assert server.cli("jobs", "shell", "kept", "--", "no-such-program").returncode == 3
    seen = server.cli("jobs", "shell", "kept", "--", "cat", str(server.home / "token"))
    assert (seen.returncode == 0) == (server.client.status()["isolation"]["level"] == 0)

    # It ends with the place: also what hides from its session, its parent and its environment.
    hides = "trap '' HUP; (env -i setsid sleep 4242.5 &); echo sleeps; sleep 4242.5"
    with subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", "jobs", "shell", "kept", "--", "sh", "-c", hides],
        env=server.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as open_shell:
        assert open_shell.stdout is not None and open_shell.stdout.readline() == "sleeps\n"
        assert server.cli("jobs", "release", "kept").returncode == 0
        assert open_shell.wait(30) == 129
    details = ended(server, "kept")
    assert (details["state"], details["exit_code"]) == ("FAILED", 3)
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "4242.5"]]
    refused = server.cli("jobs", "shell", "kept")
    assert refused.returncode == 6 and "no place of it is kept" in refused.stderr
    refused = server.cli("jobs", "release", "kept")
    assert refused.returncode == 1 and "no place of local/kept is kept" in refused.stderr


def test_memory_that_was_asked_for_is_a_limit(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hog.py").write_text("kept = [bytearray(b'1' * (100 << 20)) for _ in range(8)]\nprint('has it all')\n")
    done = server.cli("run", "--memory=0.5", "--name=hog", "--", "python", "hog.py", cwd=tmp_path)
    if "counted, not enforced" in done.stderr:
        pytest.skip("control groups cannot be made here")
    assert done.returncode == 137 and "has it all" not in done.stdout, done.stdout + done.stderr
    assert "HOST_OOM" in done.stderr and "of 0.5 GB at the most" in done.stderr
    assert server.cli("run", "--memory=2", "--", "python", "hog.py", cwd=tmp_path).returncode == 0
