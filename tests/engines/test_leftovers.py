"""What a supervisor that is killed leaves behind is gone before its replica counts as ended, by whichever mechanism there is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.isolation import Isolation, detect
from stoker.engines.local.leftovers import end_leftovers, mark_of_home
from stoker.runtime import cgroups
from stoker.runtime.cgroups import Cgroups
from stoker.runtime.folder import Folder
from stoker.runtime.processes import started
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, a_launch, look, until
from tests.contract.test_engines import a_local_engine

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose a process is")
FOLDER = Path("runs") / ATTEMPT / "chief-0"

# A child that leaves its session, its parent and its environment behind: nothing that it inherited tells whose it is.
HIDE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)", "child of " + sys.argv[1]], {})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(300)
"""


def hidden(name: str) -> list[psutil.Process]:
    """The processes that hide, by their last argument."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-1:] == [name] and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def cgroup_v1() -> Cgroups | None:
    """The frozen way, also where there is a better one."""
    base = f"/sys/fs/cgroup/freezer/stoker-test-{os.getuid()}"
    return Cgroups("cgroup v1", base, {}) if os.path.isdir("/sys/fs/cgroup/freezer") and cgroups._works(base) else None


def a_way(name: str, home: Path) -> Isolation:
    """Level 0 with one mechanism alone, or level 1."""
    if name == "notes":
        return Isolation(home=home)
    if name == "PID namespace":
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed")
        return replace(detect("1", home), groups=None)
    groups = cgroup_v1() if name == "cgroup v1" else cgroups.find(f"stoker-test-{os.getuid()}")
    if groups is None or groups.kind != name:
        pytest.skip(f"{name} cannot be used here")
    return Isolation(home=home, groups=groups)


@pytest.fixture(params=["notes", "cgroup v1", "cgroup v2", "PID namespace"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalEngine]:
    engine = a_local_engine(tmp_path, isolation=a_way(request.param, tmp_path))
    yield engine
    engine.stop(ATTEMPT, force=True)


def start_hiding(engine: LocalEngine, home: Path) -> psutil.Process:
    """Start a program whose child hides. Returns the child."""
    name = f"hidden-{os.path.basename(home)}"
    engine.start(engine.render(a_launch(sys.executable, "-c", HIDE, name)))
    wait_until(lambda: [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0)] == ["ready"])
    (found,) = wait_until(lambda: hidden(f"child of {name}"))
    if engine.isolation.level == 0 and engine.isolation.groups is None:
        wait_until(lambda: str(found.pid) in str(Folder(str(home / FOLDER)).read_processes()))
    return found


def supervisor(home: Path) -> int:
    return int((home / FOLDER / "pid").read_text())


def test_nothing_outlives_a_killed_supervisor(engine: LocalEngine, tmp_path: Path) -> None:
    child = start_hiding(engine, tmp_path)
    os.kill(supervisor(tmp_path), signal.SIGKILL)
    assert until(engine, *FINAL_REPLICA_STATES).state is ReplicaState.LOST
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "it was gone when the replica had ended"


def test_the_program_gets_its_grace(engine: LocalEngine, tmp_path: Path) -> None:
    script = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)  # a checkpoint takes its time
    open("saved", "a").write("saved")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""
    engine.start(engine.render(a_launch(sys.executable, "-c", script)))
    wait_until(lambda: [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0)] == ["ready"])
    engine.stop(ATTEMPT, force=False)
    assert until(engine, *FINAL_REPLICA_STATES).exit_code == 143
    assert (tmp_path / FOLDER / "work/saved").read_text() == "saved"


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("import sys; sys.exit(3)", 3, "Error"),
        ("import os; os.abort()", 6, "SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", 137, "SIGKILL"),
        ("import sys; sys.exit(255)", 255, "Error"),
    ],
)
def test_how_it_ended_is_told_in_a_sandbox_too(tmp_path: Path, script: str, code: int, words: str) -> None:
    engine = a_local_engine(tmp_path, isolation=a_way("PID namespace", tmp_path))
    engine.start(engine.render(a_launch(sys.executable, "-c", script)))
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert seen.exit_code == code and words in seen.message


def test_a_missing_program_is_said_in_a_sandbox_too(tmp_path: Path) -> None:
    engine = a_local_engine(tmp_path, isolation=a_way("PID namespace", tmp_path))
    engine.start(engine.render(a_launch("no-such-program")))
    assert "no program 'no-such-program'" in until(engine, *FINAL_REPLICA_STATES).message


def test_an_attempt_that_nobody_knows_is_ended_when_the_server_starts(engine: LocalEngine, tmp_path: Path) -> None:
    """Its database was restored from a backup, say."""
    child = start_hiding(engine, tmp_path)
    heir = a_local_engine(tmp_path, isolation=engine.isolation)
    heir.adopt([ATTEMPT])
    assert child.is_running() and look(heir).state is ReplicaState.UP, "what is live goes on"
    heir.adopt([])
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert look(heir).state is ReplicaState.LOST


def test_what_a_killed_supervisor_of_no_live_attempt_left_is_ended_when_the_server_starts(
    engine: LocalEngine, tmp_path: Path
) -> None:
    child = start_hiding(engine, tmp_path)
    os.kill(supervisor(tmp_path), signal.SIGKILL)
    wait_until(lambda: not Folder(str(tmp_path / FOLDER)).supervisor_lives())
    a_local_engine(tmp_path, isolation=engine.isolation).adopt([])
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_what_an_ended_attempt_left_is_ended_when_the_server_starts(tmp_path: Path) -> None:
    engine = a_local_engine(tmp_path)
    mark = {"STOKER_RUN": mark_of_home(tmp_path / "runs") + "0"}
    stray = subprocess.Popen(["sleep", "300"], env=mark, start_new_session=True)
    other = subprocess.Popen(["sleep", "300"], env={"STOKER_RUN": "another-home"}, start_new_session=True)
    engine.adopt([])
    assert stray.wait(5) == -signal.SIGKILL
    assert other.poll() is None, "another server's are left alone"
    other.kill()
    other.wait()


def test_a_supervisor_is_never_signalled_by_an_id_that_is_another_process_now(tmp_path: Path) -> None:
    engine = a_local_engine(tmp_path)
    engine.start(engine.render(a_launch(sys.executable, "-c", "import time; time.sleep(300)")))
    until(engine, ReplicaState.UP)
    os.kill(supervisor(tmp_path), signal.SIGKILL)
    until(engine, ReplicaState.LOST)
    other = subprocess.Popen(["sleep", "300"])
    (tmp_path / FOLDER / "pid").write_text(str(other.pid))
    engine.stop(ATTEMPT, force=True)
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_namespaces_number_that_has_gone_to_another_kills_nobody(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    command = ["bwrap", "--bind", "/", "/", "--unshare-pid", "--info-fd", "1", "sleep", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        told = json.loads("".join(iter(other.stdout.readline, "}\n")) + "}")
        first, began = told["child-pid"], started(told["child-pid"])
        try:
            for claimed, lives in (((began or 0) - 1, True), (began, False)):
                note = {"namespaces": [[first, claimed, told["pid-namespace"]]]}
                Path(folder.processes_file).write_text(json.dumps(note))
                assert end_leftovers(folder, "no such mark")
                assert (started(first) == began) == lives
        finally:
            other.kill()
