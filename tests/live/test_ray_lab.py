"""Machines of one's own, by SSH: made nodes in one command, no folder shared, cables cut; each with a real sshd (lab.py)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.engines.ray.hosts.head import PORT
from tests.conftest import wait_until
from tests.lab import SERVER, Lab, address_of, fill_cache, why_no_lab

pytest.importorskip("ray")
pytestmark = [pytest.mark.live, pytest.mark.campaign, pytest.mark.skipif(bool(why_no_lab()), reason=why_no_lab())]

FIRST, SECOND = 2, 3


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two machines, made nodes; the server's own takes no work."""
    cache = Path("/var/tmp/stoker-lab-cache")
    cache.mkdir(exist_ok=True)
    fill_cache(cache)
    with Lab(cache) as lab:
        for number in (FIRST, SECOND):
            lab.boot(number)
        (lab.folder / "job").mkdir()
        done = lab.stoker(*add(lab, f"ada@{address_of(FIRST)}", f"ada@{address_of(SECOND)}"))
        assert done.stderr.count("is a node") == 2, done.stderr
        lab.stoker("nodes", "cordon", "local")
        yield lab
    shutil.rmtree(cache)


def add(lab: Lab, *destinations: str) -> list[str]:
    """The words that make machines nodes."""
    return ["nodes", "add", "--packages", "ray", "--ssh-config", str(lab.ssh_config), *destinations]


def begin(lab: Lab, name: str, program: str, *flags: str) -> None:
    """Submit a program with a job directory of its own."""
    (lab.folder / "job" / "program.py").write_text(program)
    words = ["run", "--async", "--name", name, "--job-dir", f"gs://lab/{name}", *flags, "--", "python", "program.py"]
    done = subprocess.run(
        [*lab.inside(SERVER), sys.executable, "-m", "stoker.cli.main", *words],
        env=lab.environment(), cwd=lab.folder / "job", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def kept(lab: Lab, name: str) -> Path:
    """The job's directory, at the site."""
    return lab.home / "buckets" / "gs" / "lab" / name


def job(lab: Lab, name: str) -> dict[str, Any]:
    """What the server says of a job."""
    found: dict[str, Any] = json.loads(lab.stoker("jobs", "describe", name, "--json").stdout)
    return found


def end(lab: Lab, name: str, state: str = "SUCCEEDED", seconds: float = 120.0) -> str:
    """Wait until a job has ended so. Returns its log."""
    wait_until(lambda: job(lab, name)["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"), seconds=seconds, every=0.5)
    log = log_of(lab, name)
    assert job(lab, name)["state"] == state, log
    return log


def log_of(lab: Lab, name: str) -> str:
    """All that a job and its supervisors have said."""
    done = lab.stoker("logs", name)
    return done.stdout + done.stderr


def nodes(lab: Lab) -> dict[int, dict[str, Any]]:
    """The nodes that take work, by the numbers of their machines."""
    found = json.loads(lab.stoker("nodes", "--json").stdout)["nodes"]
    return {
        number: node
        for node in found
        for number in (FIRST, SECOND)
        if node["name"].startswith(f"{address_of(number)}-") and node["state"] == "UP"
    }


def where(lab: Lab, name: str) -> int:
    """The machine on which a job runs."""
    return next(number for number, node in nodes(lab).items() if any(name in job for job in node["jobs"]))


def test_machines_are_well_and_their_programs_are_kept_apart(lab: Lab) -> None:
    assert sorted(nodes(lab)) == [FIRST, SECOND]
    assert lab.stoker("nodes", "check").stderr.count("is well") == 2
    program = """
import os
print("home", os.listdir(os.environ["HOME"]), "user", os.getuid())
print("ssh", os.path.exists("/home/ada/.ssh/authorized_keys"))
print("token", os.path.exists("/home/ada/.local/share/stoker-node/token"))
print("secrets", [name for name in os.environ if "TOKEN" in name])
try:
    open("/home/ada/mark", "w")
except OSError as error:
    print(error.strerror)
"""
    begin(lab, "apart", program)
    log = end(lab, "apart")
    for words in ("home [] user 31977", "ssh False", "token False", "secrets []", "Read-only file system"):
        assert words in log, log


def test_what_is_given_is_there_and_what_is_written_arrives_while_it_runs(lab: Lab) -> None:
    kept(lab, "files").mkdir(parents=True)
    (kept(lab, "files") / "given.txt").write_text("given")
    program = """
import os, time
base = os.environ["STOKER_JOB_DIR"]
assert open(os.path.join(base, "given.txt")).read() == "given"
for number in range(3):
    open(os.path.join(base, f"weights-{number}"), "wb").write(bytes([number]) * 2_000_000)
    open(os.path.join(base, "checkpoint"), "w").write(f"weights-{number}")
    if number:
        os.remove(os.path.join(base, f"weights-{number - 1}"))
    time.sleep(3)
"""
    begin(lab, "files", program)
    named = kept(lab, "files") / "checkpoint"
    wait_until(named.exists)
    assert (
        job(lab, "files")["state"] == "RUNNING" and (kept(lab, "files") / named.read_text()).stat().st_size == 2_000_000
    )
    end(lab, "files")
    assert sorted(path.name for path in kept(lab, "files").iterdir()) == ["checkpoint", "given.txt", "weights-2"]
    assert (kept(lab, "files") / "weights-2").read_bytes() == b"\x02" * 2_000_000


SUM = """
import os, time
from stoker import checkpoint
state = checkpoint.State(total=[0.1])
for epoch in state.epochs(2):
    for value in state.batches(list(range(80))):
        state.total[0] = state.total[0] * 1.0000001 + value / 7
        time.sleep(0.1)
open(os.path.join(os.environ["STOKER_JOB_DIR"], "result"), "w").write(repr(state.total[0]))
"""


def test_cut_off_it_goes_on_elsewhere_and_ends_with_the_same_bits(lab: Lab) -> None:
    begin(lab, "cut", SUM, "--checkpoints", "1s")
    wait_until(lambda: list(kept(lab, "cut").glob("checkpoints/state/*/MANIFEST.json")))
    first = where(lab, "cut")
    lab.pull_cable(first)
    try:
        log = end(lab, "cut")
    finally:
        lab.heal_cable(first)
    assert "goes on at step" in log
    total = 0.1
    for value in [*range(80), *range(80)]:
        total = total * 1.0000001 + value / 7
    assert (kept(lab, "cut") / "result").read_text() == repr(total)
    wait_until(lambda: first in nodes(lab), every=0.5)  # it comes back by itself


def test_replicas_of_several_machines_see_each_others_files(lab: Lab) -> None:
    program = """
import json, os, time
base = os.environ["STOKER_JOB_DIR"]
task = json.loads(os.environ["TF_CONFIG"])["task"]
open(os.path.join(base, task["type"]), "w").write(os.uname().nodename)
until = time.monotonic() + 60
while len(os.listdir(base)) < 2:
    assert time.monotonic() < until
    time.sleep(0.1)
"""
    begin(lab, "gang", program, "--workers", "1", "--cpus", "2")
    end(lab, "gang")
    assert sorted(path.name for path in kept(lab, "gang").iterdir()) == ["chief", "worker"]


def test_a_full_disk_at_the_site_is_told_and_nothing_is_lost(lab: Lab) -> None:
    kept(lab, "full").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(kept(lab, "full"))], check=True)
    try:
        program = """
import os, time
open(os.path.join(os.environ["STOKER_JOB_DIR"], "model"), "wb").write(b"m" * 3_000_000)
time.sleep(2)
"""
        begin(lab, "full", program)
        wait_until(lambda: "No space left on device" in log_of(lab, "full"), every=0.5)
        assert not (kept(lab, "full") / "model").exists()
        subprocess.run(["mount", "-o", "remount,size=8m", str(kept(lab, "full"))], check=True)
        end(lab, "full")
        assert (kept(lab, "full") / "model").stat().st_size == 3_000_000
    finally:
        subprocess.run(["umount", str(kept(lab, "full"))], check=True)


def test_what_was_written_at_last_arrives_over_a_slow_link(lab: Lab) -> None:
    program = """
import os, signal, sys, time
def save(*_):
    open(os.path.join(os.environ["STOKER_JOB_DIR"], "last"), "wb").write(os.urandom(8_000_000))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(os.path.join(os.environ["STOKER_JOB_DIR"], "begun"), "w").close()
time.sleep(600)
"""
    begin(lab, "slow", program)
    wait_until((kept(lab, "slow") / "begun").exists)
    machine = where(lab, "slow")
    lab.slow_link(machine, "3mbit")
    try:
        lab.stoker("jobs", "cancel", "slow")
        log = end(lab, "slow", "CANCELLED")
    finally:
        lab.slow_link(machine, "1gbit")
    assert (kept(lab, "slow") / "last").stat().st_size == 8_000_000
    assert "sends what it has written to the site: 1 file(s)" in log


def test_what_is_wrong_with_a_machine_is_told_in_words(lab: Lab) -> None:
    for destination, words in {
        "ada@nowhere.invalid": "no machine has that name",
        f"ada@{address_of(9)}": "it does not answer",
        f"ada@{address_of(SERVER)}": "nobody listens there for SSH",
        f"eve@{address_of(FIRST)}": "it does not let eve@",
        f"ada@{address_of(FIRST)}": "is a node already",
        "-oProxyCommand=id": "is no machine",
    }.items():
        done = lab.stoker(*add(lab, "--name", "other", "--", destination), check=False)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
    begin(lab, "holds", "import time; time.sleep(600)")
    wait_until(lambda: job(lab, "holds")["state"] == "RUNNING")
    name = "10.78.0." + str(where(lab, "holds"))
    done = lab.stoker("nodes", "remove", name, check=False)
    assert done.returncode == 1 and "holds runs on" in done.stderr
    lab.stoker("jobs", "cancel", "holds")
    wait_until(lambda: job(lab, "holds")["state"] == "CANCELLED")
    done = lab.stoker("nodes", "remove", "box9", check=False)
    assert done.returncode == 3 and "no machine box9 was added" in done.stderr


def test_a_closed_port_is_told(lab: Lab) -> None:
    place = f"-p tcp -s {address_of(FIRST)} --dport {PORT} -j DROP"
    tool = shutil.which("iptables")
    if tool is None:
        pytest.skip("no iptables here")
    subprocess.run([*lab.inside(SERVER), tool, "-I", "INPUT", *place.split()], check=True)
    try:
        done = lab.stoker("nodes", "check", address_of(FIRST), check=False)
        assert done.returncode == 1 and f"does not reach {address_of(SERVER)}:{PORT} (Ray's head)" in done.stderr
    finally:
        subprocess.run([*lab.inside(SERVER), tool, "-D", "INPUT", *place.split()], check=True)


def test_the_server_and_rays_head_may_be_killed(lab: Lab) -> None:
    begin(lab, "on", SUM, "--checkpoints", "1s")
    wait_until(lambda: list(kept(lab, "on").glob("checkpoints/state/*/MANIFEST.json")))
    lab.stoker("down")
    lab.stoker("up")
    end(lab, "on")
    head = int((lab.home / "ray" / "head.pid").read_text())
    subprocess.run(["pkill", "-KILL", "-s", str(head)], check=True)
    begin(lab, "after", "print('ran')")
    assert "ran" in end(lab, "after")


def test_a_machine_is_given_back_and_nothing_of_it_is_left(lab: Lab) -> None:
    lab.stoker("nodes", "remove", address_of(FIRST))
    assert lab.run_at(FIRST, "ls -A ~/.local/share; ls -A /tmp | grep stoker-node; pgrep -u ada raylet; true") == ""
    wait_until(lambda: FIRST not in nodes(lab), every=0.5)
    began = time.monotonic()
    lab.stoker(*add(lab, address_of(FIRST)))  # and it may come again
    print(f"added in {time.monotonic() - began:.1f} s")
    lab.kill(FIRST)
    lab.boot(FIRST)  # without systemd or cron it is started by hand
    lab.run_at(FIRST, "setsid ~/.local/share/stoker-node/keep </dev/null >/dev/null 2>&1 &")
    wait_until(lambda: FIRST in nodes(lab), every=0.5)
    lab.kill(SECOND)
    done = lab.stoker("nodes", "remove", address_of(SECOND), check=False)
    assert done.returncode == 1 and "nobody listens there for SSH" in done.stderr
    done = lab.stoker("nodes", "remove", "--force", address_of(SECOND))
    assert "is forgotten" in done.stderr
    lab.stoker("nodes", "remove", address_of(FIRST))
    assert "engines         local\n" in lab.stoker("status").stdout
