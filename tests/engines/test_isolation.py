"""What each isolation level keeps out, by a program that tries everything: docs/security.md says no more and no less."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.core.errors import EngineError, Unavailable
from stoker.core.launch import Launch
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.local.isolation import Isolation, detect
from stoker.runtime.mount_list import MountList
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, a_launch, until
from tests.contract.test_engines import a_local_engine

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="level 0 alone is known elsewhere")
DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
VICTIM = "p/victim.1"

VICTIM_SCRIPT = """
import os, sys, time
open("secret", "w").write("s")
os.makedirs("/dev/shm", exist_ok=True)
open(f"/dev/shm/{sys.argv[1]}", "w").write("s")
print("ready", flush=True)
time.sleep(300)
"""

# One row of the table after the other. What raises OSError is kept out.
INTRUDER = """
import ctypes, glob, json, os, socket, sys

told = json.loads(sys.argv[1])

def read(path):
    return bool(open(path, "rb").read(1))

def of_processes(what):
    for path in glob.glob(f"/proc/[0-9]*/{what}"):
        try:
            yield open(path, "rb").read()
        except OSError:
            pass  # not ours to read, or it has just ended

def environments():
    return any(b"VICTIM_KEY=" in found for found in of_processes("environ"))

def processes():
    return any(told["name"].encode() in words and b"probes" not in words for words in of_processes("cmdline"))  # not ours

def connect(kind, address):
    with socket.socket(kind) as s:
        s.connect(address)
    return True

def call(on_x86_64, on_aarch64, *arguments):
    number = {"x86_64": on_x86_64, "aarch64": on_aarch64}[os.uname().machine]
    return ctypes.CDLL(None).syscall(number, *arguments) >= 0

def write(path):
    with open(path, "w") as file:
        file.write("x" * (1 << 20))
    return True

probes = {
    "read another job's working directory": lambda: read(told["victim"] + "/work/secret"),
    "read another job's log": lambda: read(told["victim"] + "/log.jsonl"),
    "read another process's environment": environments,
    "see other processes": processes,
    "end another job's processes": lambda: os.kill(told["pid"], 0) is None,
    "read the server's token": lambda: read(told["home"] + "/token"),
    "read the server's database": lambda: read(told["home"] + "/stoker.db"),
    "read its replica's token": lambda: read("../request.json"),
    "use shared memory of others": lambda: read("/dev/shm/" + told["name"]),
    "reach sockets in /run and /tmp": lambda: connect(socket.AF_UNIX, told["socket"]),
    "write outside its folders": lambda: write(told["open"] + "/written"),
    "change the kernel's settings": lambda: (not told["is_root"] and "") or os.access("/proc/sys/kernel/core_pattern", os.W_OK),
    "read what the kernel tells of others": lambda: read("/proc/keys"),
    "make namespaces of its own": lambda: call(272, 97, 0x10000000),  # unshare(CLONE_NEWUSER)
    "use keys and counters of the kernel": lambda: call(250, 219, 0, -3, 1),  # keyctl(KEYCTL_GET_KEYRING_ID, session, create)
    "read hidden files of the server's user": lambda: told["hidden"] and read(told["hidden"]),
    "read files that only the server's user may read": lambda: told["private"] and read(told["private"]),
    "inherit secrets of the server's environment": lambda: "SOME_SECRET_KEY" in os.environ,
    "reach every service of the machine over the network": lambda: connect(socket.AF_INET, ("127.0.0.1", told["port"])),
    "read what everybody on the machine may read": lambda: read("/etc/passwd"),
    "fill the disk": lambda: write("much"),
}
for what, probe in probes.items():
    try:
        found = probe()
    except OSError:
        found = False
    print(json.dumps([what, found]), flush=True)
"""


def documented(level: int) -> Mapping[str, bool]:
    """The table of docs/security.md."""
    rows = re.findall(r"^\| ([a-z][^|]+) \| (yes|no) \| (yes|no) \| (yes|no) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert rows
    return {row[0]: row[1 + level] == "yes" for row in rows}


def a_level(level: int, home: Path, **settings: object) -> Isolation:
    """The level, if this machine can give it."""
    try:
        return detect(str(level), home, **settings)
    except Unavailable as error:
        pytest.skip(str(error))


def triples(words: list[str]) -> list[tuple[str, str, str]]:
    """Each word with the two that follow."""
    return list(zip(words, words[1:], words[2:], strict=False))


def hidden_file() -> str:
    """A file that begins with a dot, in the home of who runs this, and stays there; empty if there is none."""
    found = [
        path for path in Path(pwd.getpwuid(os.getuid()).pw_dir).glob(".*") if path.is_file() and path.stat().st_size
    ]
    return str(min(found, key=lambda path: path.stat().st_mtime)) if found else ""


def python(script: str, *args: str, owner: str = "ada", folders: tuple[str, ...] = ()) -> Launch:
    """A launch of a small program."""
    return replace(a_launch(sys.executable, "-c", script, *args), owner=owner, folders=folders)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A server's home with its secrets."""
    home = tmp_path / "around" / "home"
    home.mkdir(mode=0o700, parents=True)
    for name in ("token", "stoker.db"):
        (home / name).write_text("s")
    return home


@pytest.fixture
def door(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A socket in /tmp and one on loopback, both open."""
    short = Path(f"/tmp/stoker-{os.getpid()}.sock")  # a socket's path may have 108 bytes
    with socket.socket(socket.AF_UNIX) as here, socket.socket() as there:
        here.bind(str(short))
        here.listen()
        short.chmod(0o777)
        there.bind(("127.0.0.1", 0))
        there.listen()
        yield str(short), there.getsockname()[1]
    short.unlink()


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder of the machine that a sandbox shows, since it is not in /tmp."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_a_program_can_get_at(
    home: Path, outside: Path, door: tuple[str, int], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET_KEY", "s")
    around = {"folders": (str(home.parent),)}  # what hides the home is not that /tmp is hidden
    engine = a_local_engine(home, isolation=a_level(level, home, **around))
    outside.chmod(0o777)
    victim = home / "runs" / VICTIM / "chief-0"
    name = f"victim-{os.getpid()}-{level}"
    a_victim = replace(python(VICTIM_SCRIPT, name, owner="eve"), attempt=VICTIM)
    a_victim = replace(a_victim, replicas=tuple(replace(r, env={"VICTIM_KEY": "s"}) for r in a_victim.replicas))
    engine.start(engine.render(a_victim))
    try:
        wait_until(lambda: [line["m"] for line in engine.logs(VICTIM, "chief-0", 0)] == ["ready"])
        told = {
            "home": str(home),
            "victim": str(victim),
            "name": name,
            "pid": json.loads((victim / "status.json").read_text())["program_pid"],
            "socket": door[0],
            "port": door[1],
            "open": str(outside),
            "is_root": os.getuid() == 0 and os.access("/proc/sys/kernel/core_pattern", os.W_OK),
            "hidden": hidden_file(),
            "private": "/etc/shadow" if os.getuid() == 0 else "",
        }
        engine.start(engine.render(python(INTRUDER, json.dumps(told))))
        until(engine, *FINAL_REPLICA_STATES)
    finally:
        engine.stop(VICTIM, force=True)
        Path(f"/dev/shm/{name}").unlink(missing_ok=True)
    lines = [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0) if line["s"] != "service"]
    found = dict(map(json.loads, lines))
    untried = {what for what, answer in found.items() if answer == ""}  # there is nothing to try it on here
    expected = documented(level)
    assert set(found) == set(expected), "each row of the table is tried"
    assert {w: f for w, f in found.items() if w not in untried} == {
        w: f for w, f in expected.items() if w not in untried
    }


@pytest.mark.parametrize("level", [1, 2])
def test_what_a_program_needs_is_there(home: Path, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANTED", "yes")
    job_dir, shared = home / "buckets/gs/data/job", home.parent / "shared"
    isolation = a_level(level, home, folders=(str(shared),), inherited=("WANTED",))
    engine = a_local_engine(home, isolation=isolation)
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    script = """
import json, multiprocessing, os, pathlib, socket, sys, tempfile
job_dir, shared = sys.argv[1:]
os.makedirs(job_dir, exist_ok=True)
for folder in (job_dir, shared, os.environ["HOME"], "/tmp", "/dev/shm", tempfile.gettempdir(), "."):
    pathlib.Path(folder, "written").write_text("x")
multiprocessing.Pool(2).map(abs, [1, 2])
socket.create_server(("127.0.0.1", 0)).close()
open("/dev/null", "w").write("x")
assert os.path.samefile(f"/proc/{os.getpid()}/exe", "/proc/self/exe")
import ssl, sqlite3, json.tool
print(json.dumps([os.environ["WANTED"], os.getuid(), os.cpu_count() > 0, os.path.samefile(os.environ["PWD"], ".")]))
"""
    engine.start(engine.render(python(script, str(job_dir), str(shared), folders=(str(job_dir),))))
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert seen.state is ReplicaState.SUCCEEDED, seen.message
    first = next(engine.logs(ATTEMPT, "chief-0", 0))["m"]
    assert json.loads(first) == ["yes", 20_000 if level == 2 else os.getuid(), True, True]
    assert (job_dir / "written").exists() and (shared / "written").exists()
    assert (home / "job-homes/ada/written").exists(), "its home stays from job to job"


def test_an_owner_keeps_its_user_and_another_gets_another(home: Path) -> None:
    isolation = a_level(2, home, users=(20_000, 20_001))

    def user(owner: str) -> object:
        return isolation.prepare(isolation.words(owner, ()))["user"]

    assert [user("ada"), user("eve"), user("ada")] == [20_000, 20_001, 20_000]
    with pytest.raises(EngineError) as refused:
        user("bob")
    assert "job_users" in refused.value.message


@pytest.mark.parametrize(
    "folder",
    ["/", "/etc", "/usr/share/x", "HOME", "HOME/runs/p/j.1", "ABOVE", sys.prefix, "~", "~/.ssh", "HOME/../home/token"],
)
def test_no_job_opens_what_is_not_for_data(home: Path, folder: str) -> None:
    engine = a_local_engine(home, isolation=a_level(1, home))
    user_home = pwd.getpwuid(os.getuid()).pw_dir
    if folder.startswith("~") and not os.path.isdir(user_home):
        pytest.skip("who runs this has no home")
    named = folder.replace("HOME", str(home)).replace("ABOVE", str(home.parent)).replace("~", user_home)
    with pytest.raises(EngineError) as refused:
        engine.start(engine.render(python("", folders=(named,))))
    assert "may not write to" in refused.value.message and "job_folders" in refused.value.message


def test_a_link_opens_nothing_that_is_not_for_data(home: Path, tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/etc")
    engine = a_local_engine(home, isolation=a_level(1, home))
    with pytest.raises(EngineError):
        engine.start(engine.render(python("", folders=(str(tmp_path / "innocent"),))))


def test_a_folder_that_became_a_link_is_not_opened_at_the_next_start(home: Path, outside: Path) -> None:
    from stoker.runtime.folder import Folder
    from stoker.runtime.sandbox import Sandbox

    folder = outside / "job"
    isolation = Isolation(home=home, level=1, bwrap="bwrap")
    words = isolation.prepare(isolation.words("ada", (str(folder),)))
    sandbox = Sandbox({"isolation": words, "python": sys.executable, "visible_devices": ""}, Folder(str(home)))
    with closing(MountList()) as mounts:
        assert str(folder) in sandbox.command(["true"], mounts)
    folder.rmdir()
    folder.symlink_to("/etc")
    with closing(MountList()) as mounts, pytest.raises(OSError, match="its job directory is not what it was"):
        sandbox.command(["true"], mounts)


def test_a_job_that_swaps_its_directory_for_a_link_is_not_started_again(home: Path, outside: Path) -> None:
    bucket, kept = outside / "bucket", outside / "kept"
    kept.mkdir()
    isolation = a_level(1, home, folders=(str(bucket),))
    engine = a_local_engine(home, isolation=isolation)
    script = """
import os, sys
job_dir, kept = sys.argv[1:]
if os.path.islink(job_dir):
    open(os.path.join(job_dir, "written"), "w").write("x")
above = os.path.dirname(job_dir)  # what is mounted cannot be removed, but what it lies in can be moved
os.rename(above, above + "-2")
os.mkdir(above)
os.symlink(kept, job_dir)
os._exit(137)
"""
    job_dir = str(bucket / "above" / "job")
    launch = python(script, job_dir, str(kept), folders=(job_dir,))
    engine.start(engine.render(replace(launch, in_place=1)))
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert seen.state is ReplicaState.FAILED and "its job directory is not what it was" in seen.message
    assert not list(kept.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="it needs root")
def test_no_folder_is_made_or_given_away_through_a_link(home: Path, outside: Path) -> None:
    job, kept = outside / "job", outside / "kept"
    (kept / "below").mkdir(parents=True)
    isolation = Isolation(home=home, level=2, bwrap="bwrap", folders=(str(outside),))
    words = {**isolation.words("ada", ()), "own_folders": [str(job / "below"), str(job / "new")]}
    job.symlink_to(kept)  # after the request was made
    with pytest.raises(EngineError, match="its job directory is not what it was"):
        isolation.prepare(words)
    assert [path.name for path in kept.iterdir()] == ["below"]
    assert (kept / "below").stat().st_uid == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ada": "root"}'])
def test_a_damaged_book_of_users_gives_nobody_anothers(home: Path, text: str) -> None:
    (home / "job-users.json").write_text(text)
    isolation = a_level(2, home)
    with pytest.raises(EngineError, match=r"job-users\.json is damaged"):
        isolation.prepare(isolation.words("ada", ()))


def test_what_hidden_links_lead_to_is_hidden_and_of_a_hidden_program_only_itself_is_shown(tmp_path: Path) -> None:
    from stoker.runtime.folder import Folder
    from stoker.runtime.sandbox import Sandbox

    user_home = tmp_path / "user"
    (user_home / "dotfiles/ssh").mkdir(parents=True)
    (user_home / ".ssh").symlink_to("dotfiles/ssh")
    program = user_home / ".tool/bin/tool"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    words = {**Isolation(home=tmp_path / "home", level=1, bwrap="bwrap").words("ada", ()), "user_home": str(user_home)}
    request = {"isolation": words, "python": sys.executable, "visible_devices": ""}
    with closing(MountList()) as mounts:
        command = Sandbox(request, Folder(str(tmp_path))).command([str(program)], mounts)
    pairs = list(pairwise(command))
    assert ("--tmpfs", str(user_home / "dotfiles/ssh")) in pairs and ("--tmpfs", str(user_home / ".tool")) in pairs
    assert sum(word == str(program) for word in command) == 2, "where it is shown, and the command"
    assert not {str(program.parent.parent), str(tmp_path)} & {
        at for how, _, at in triples(command) if how == "--ro-bind-fd"
    }


def test_a_level_that_cannot_be_had_is_refused_with_what_to_install(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as refused:
        detect("1", home)
    assert "bubblewrap" in refused.value.message and refused.value.fix.startswith("apt install bubblewrap")
    found = detect("auto", home)
    assert found.level == 0 and "apt install bubblewrap" in found.next_level


def test_a_bubblewrap_that_does_not_work_is_not_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert detect("auto", home).level == 0
    with pytest.raises(Unavailable) as refused:
        detect("1", home)
    assert "No permissions to create a new namespace" in refused.value.message


def test_auto_takes_level_1_where_it_works(home: Path) -> None:
    a_level(1, home)
    assert detect("auto", home).level == 1


def test_a_replica_sees_its_own_gpus_alone(home: Path) -> None:
    """The device files are not here: what would be bound is told by the arguments."""
    from stoker.runtime.folder import Folder
    from stoker.runtime.sandbox import Sandbox

    isolation = Isolation(home=home, level=1, bwrap="bwrap")
    request = {"isolation": isolation.words("ada", ()), "python": sys.executable, "visible_devices": ""}
    for visible in ("", "GPU-1"):
        sandbox = Sandbox({**request, "visible_devices": visible}, Folder(str(home)))
        with closing(MountList()) as mounts:
            assert ("/dev/nvidiactl" in sandbox.command(["true"], mounts)) is bool(visible)
