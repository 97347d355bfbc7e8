"""Training without a server, as gcloud's `local train`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.client.local_train import FIRST_PORT, LocalCluster, local_train
from stoker.core.errors import BadSpec
from tests.conftest import wait_until

TASK = """
import json, os, signal, sys, time

config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"].get("type", "alone"), config["task"].get("index", 0)
said = {"config": config, "args": sys.argv[1:], "cwd": os.getcwd(), "pid": os.getpid()}
with open(f"{role}-{index}.tmp", "w") as file:
    json.dump(said, file)
os.rename(f"{role}-{index}.tmp", f"{role}-{index}.json")
if role in ("chief", "alone"):
    code = int(sys.argv[1])
    while not all(os.path.exists(f"{r}.json") for r in sys.argv[2:] if r.count("-") == 1 and r[0] != "-"):
        time.sleep(0.01)
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)
if role == "ps":
    signal.signal(signal.SIGTERM, lambda *_: (open(f"{role}-{index}.term", "w").close(), sys.exit(0)))
while True:
    time.sleep(1)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A tiny package whose module tells what it was given."""
    path = tmp_path / "trainer"
    path.mkdir()
    (path / "__init__.py").touch()
    (path / "task.py").write_text(TASK)
    return path


def said(package: Path, replica: str) -> dict[str, Any]:
    """What a process told."""
    found: dict[str, Any] = json.loads((package.parent / f"{replica}.json").read_text())
    return found


def is_gone(pid: int) -> bool:
    """Whether a process is no more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_one_process_in_the_parent_of_the_package(package: Path) -> None:
    assert local_train(package, "trainer.task", ["0", "--x"], "out", None) == 0
    told = said(package, "alone-0")
    assert told["args"] == ["0", "--x", "--job-dir", "out"]
    assert told["cwd"] == str(package.parent)
    assert told["config"] == {
        "job": {"job_name": "trainer.task", "args": told["args"]},
        "task": {},
        "cluster": {},
        "environment": "cloud",
    }


@pytest.mark.parametrize(("code", "result"), [("0", 0), ("3", 3), ("-9", 137), ("-15", 143)])
def test_it_ends_with_the_programs_result(package: Path, code: str, result: int) -> None:
    assert local_train(package, "trainer.task", [code], "", None) == result


def test_a_module_that_is_not_there(package: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert local_train(package, "trainer.nothing", [], "", None) == 1
    assert "No module named trainer.nothing" in capfd.readouterr().err


def test_a_cluster_whose_others_end_with_the_chief(package: Path) -> None:
    others = ["ps-0", "ps-1", "worker-0", "worker-1"]
    assert local_train(package, "trainer.task", ["5", *others], "", LocalCluster()) == 5
    told = {name: said(package, name) for name in ["chief-0", *others]}
    cluster = {
        "chief": [f"localhost:{FIRST_PORT}"],
        "ps": [f"localhost:{FIRST_PORT + 1}", f"localhost:{FIRST_PORT + 2}"],
        "worker": [f"localhost:{FIRST_PORT + 3}", f"localhost:{FIRST_PORT + 4}"],
    }
    for name, one in told.items():
        role, _, index = name.partition("-")
        assert one["config"]["cluster"] == cluster
        assert one["config"]["task"] == {"type": role, "index": int(index)}
        assert is_gone(one["pid"])
    assert (package.parent / "ps-0.term").exists()  # asked before it was killed


def test_evaluators_are_outside_the_cluster() -> None:
    cluster = LocalCluster(workers=0, parameter_servers=1, evaluators=3, start_port=5000)
    assert cluster.addresses() == {"chief": ["localhost:5000"], "ps": ["localhost:5001"]}


def test_what_is_no_package(package: Path, tmp_path: Path) -> None:
    for path, module, phrase in (
        (tmp_path / "nothing", "nothing.task", "is not a folder"),
        (tmp_path, "x.task", "has no __init__.py"),
        (package, "other.task", "is not in the package trainer"),
    ):
        with pytest.raises(BadSpec, match=phrase):
            local_train(path, module, [], "", None)


def stoker_local_train(package: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command, running."""
    command = [sys.executable, "-m", "stoker.cli.main", "local", "train", "--module-name", "trainer.task"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}
    return subprocess.Popen(
        [*command, "--package-path", str(package), *words],
        env={**environment, "STOKER_HOME": str(package.parent / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=listen_to_interrupts,
    )


def listen_to_interrupts() -> None:
    """Who runs the tests in the background of a shell may ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whoever_ends_the_command_ends_its_processes(package: Path, number: int) -> None:
    names = ["chief-0", "ps-0", "worker-0"]
    flags = ("--distributed", "--worker-count", "1", "--parameter-server-count", "1", "--start-port", "27300")
    process = stoker_local_train(package, *flags, "--", "0", "never-9")
    wait_until(lambda: all((package.parent / f"{name}.json").exists() for name in names))
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert all(is_gone(said(package, name)["pid"]) for name in names)
    assert not (package.parent / "home").exists()  # no server was needed
