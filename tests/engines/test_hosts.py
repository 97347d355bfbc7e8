"""Machines by SSH, as far as no machine is needed: what a survey says, what OpenSSH's words mean, which packages go along."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from stoker.core.errors import EngineError, NotFound, Unavailable
from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from stoker.engines.ray.hosts import packages, setup, survey
from stoker.engines.ray.hosts.adding import name_of, why_not_up
from stoker.engines.ray.hosts.book import Host, HostBook
from stoker.engines.ray.hosts.ssh import Ssh, failure
from stoker.engines.ray.hosts.survey import Survey

WELL = {
    "system": "Linux",
    "machine": "x86_64",
    "home": "/home/ada",
    "connection": "10.0.0.1 50000 10.0.0.2 22",
    "disk_kb": "100000000",
    "tmp_kb": "100000000",
    "bubblewrap": "/usr/bin/bwrap",
    "driver": "550.54.15",
}


def a_host(name: str = "box2", **changes: str) -> Host:
    """One that was added."""
    return Host(**{"name": name, "destination": f"ada@{name}", "address": "10.0.0.2", **changes})  # type: ignore[arg-type]


def told(said: dict[str, str], *, ahead: float = 0.0, packages: str = "all", is_new: bool = True) -> list[str]:
    """What is wrong with such a machine; what makes it no node at all begins with `!`."""
    found = survey.problems(
        Survey(said={**WELL, **said}, ahead_seconds=ahead),
        machine="x86_64",
        packages=packages,
        site="ours",
        is_new=is_new,
        drivers={"box3": "550.54.15", "box4": ""},
    )
    return [("!" if problem.is_fatal else "") + str(problem) for problem in found]


def test_nothing_is_wrong_with_a_machine_that_is_well() -> None:
    assert told({}) == [] and told({"driver": "", "owner": "ours"}) == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"system": "Darwin"}, "!it runs Darwin → nodes are machines with Linux"),
        ({"machine": "aarch64"}, "!its processors are aarch64, and this machine's x86_64 → packages of one"),
        ({"owner": "theirs"}, "!it is a node of another Stoker's → stoker nodes remove there"),
        (
            {"disk_kb": "3000000"},
            "!its disk has 3.1 GB free below /home/ada, and 10 GB are needed → make room there, or bring",
        ),
        ({"tmp_kb": "1000"}, "its /tmp has 0.0 GB free → make room there"),
        (
            {"driver": "535.1"},
            "its GPU driver is 535.1, and other machines have 550.54.15 → programs built for a newer CUDA",
        ),
        (
            {"driver": "NVIDIA-SMI has failed because it couldn't communicate"},
            "its GPUs do not answer: NVIDIA-SMI has failed",
        ),
        (
            {"bubblewrap": ""},
            "it has no bubblewrap, so programs there are not kept apart (isolation level 0) → apt install",
        ),
        ({"tools": "setsid"}, "!it has no setsid → apt install"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(said: dict[str, str], words: str) -> None:
    (found,) = told(said)
    assert found.startswith(words)


def test_room_is_needed_for_what_is_brought_and_little_later() -> None:
    assert told({"disk_kb": "3000000"}, packages="ray") == [] and told({"disk_kb": "3000000"}, is_new=False) == []
    assert told({"disk_kb": "500000"}, is_new=False)[0].startswith("its disk has 0.5 GB free")
    assert told({"disk_kb": "50000"}, is_new=False)[0].startswith("!its disk has 0.1 GB free")


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (-184.0, "its clock is 3 min behind this machine's"),
        (7.0, "its clock is 7 s ahead of"),
        (10_000.0, "3 h ahead"),
        (4.0, ""),
    ],
)
def test_a_clock_that_is_off_is_told(ahead: float, words: str) -> None:
    assert words in "".join(told({}, ahead=ahead))


@pytest.mark.parametrize(("now", "ahead"), [("100.5", 0.0), ("99.0", -1.0), ("105.0", 3.0), ("", 0.0), ("100.%N", 0.0)])
def test_its_clock_was_read_at_some_moment_in_between(now: str, ahead: float) -> None:
    found = survey.read(f"system=Linux\nnow={now}\n", 100.0, 102.0)
    assert found.ahead_seconds == pytest.approx(ahead) and found["system"] == "Linux"


def test_by_which_addresses_two_machines_see_each_other() -> None:
    found = Survey(said=WELL)
    assert (found.our_address, found.address) == ("10.0.0.1", "10.0.0.2")
    assert Survey().address == ""


def test_what_is_not_reached_is_told_with_the_port() -> None:
    places = {"Ray's head": "10.0.0.1:6379", "Stoker's server": "10.0.0.1:7077"}
    found = Survey(said={**WELL, "reach_0": "yes", "reach_1": "no"})
    (problem,) = survey.unreached(found, places)
    assert str(problem).startswith(
        "it does not reach 10.0.0.1:7077 (Stoker's server) on this machine → open port 7077 here"
    )
    assert problem.is_fatal and not list(survey.unreached(Survey(said=WELL), places))  # it has no means to try


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ssh: Could not resolve hostname box2: Name or service not known", "no machine has that name"),
        ("ssh: connect to host box2 port 22: Connection refused", "nobody listens there for SSH"),
        ("ssh: connect to host box2 port 22: Connection timed out", "it does not answer"),
        ("ada@box2: Permission denied (publickey,password).", "it does not let ada@box2 in"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "it shows another key"),
        (
            "kex_exchange_identification: read: Connection reset by peer",
            "cannot be reached: kex_exchange_identification",
        ),
        ("", "cannot be reached: it said nothing"),
    ],
)
def test_what_openssh_says_is_told_in_words(said: str, words: str) -> None:
    error = failure("ada@box2", said)
    assert words in error.message and error.fix


@pytest.mark.parametrize("destination", ["-oProxyCommand=id", "a b", "x;id", "$(id)", ""])
def test_no_destination_is_an_option_or_a_command(destination: str) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh here")
    with pytest.raises(EngineError, match="is no machine"):
        Ssh(destination)


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("ada@box2", "box2"),
        ("box2.lab", "box2.lab"),
        ("ada@10.0.0.2", "10.0.0.2"),
        ("ada@[fe80::1%eth0]", "fe80-1-eth0"),
    ],
)
def test_a_machine_is_called_as_it_was_named(destination: str, name: str) -> None:
    assert name_of(destination) == name


def test_all_packages_in_the_versions_of_this_machine() -> None:
    found = packages.of_environment("all")
    assert f"numpy=={version('numpy')}" in found and not [line for line in found if line.startswith("stoker==")]
    assert found == sorted(found)


def test_ray_with_all_that_it_needs_and_nothing_else() -> None:
    pytest.importorskip("ray")
    found = {line.partition("==")[0] for line in packages.of_environment("ray")}
    assert {"ray", "uv", "grpcio", "protobuf", "aiohttp", "click"} <= found
    assert not found & {"torch", "tensorflow-cpu", "pytest", "stoker"}


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("--- Tue\nRuntimeError: Version mismatch: The cluster was started with", "another version of Ray or Python"),
        ("AuthenticationError: Invalid authentication token", "does not take its token"),
        ("OSError: [Errno 28] No space left on device", "its disk is full"),
        ("--- Tue\nSomething else went wrong\n", "Ray says there: Something else went wrong"),
        ("", "Ray was not started there"),
    ],
)
def test_why_a_machine_does_not_join(log: str, words: str) -> None:
    assert words in why_not_up(log, a_host()).what


def test_the_book_keeps_what_was_added(tmp_path: Path) -> None:
    book = HostBook(tmp_path / "home")
    assert book.hosts() == []
    for host in (a_host("box3", address="10.0.0.3"), a_host()):
        book.put(host)
    book.put(a_host(environment="abc"))
    assert [host.name for host in book.hosts()] == ["box2", "box3"] and book.host("box2").environment == "abc"
    for name in ("ada@box3", "10.0.0.3", "10.0.0.3-1a2b3c4d"):
        assert book.host(name).name == "box3"
    with pytest.raises(NotFound, match="no machine box4") as error:
        book.host("box4")
    assert error.value.fix == "there are box2, box3"
    book.drop("box2")
    assert [host.name for host in book.hosts()] == ["box3"]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"name": "x"}]', '{"a": 1}', "[[]]"])
def test_a_damaged_book_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.json").write_text(text)
    with pytest.raises(Unavailable, match=r"hosts\.json cannot be read"):
        HostBook(tmp_path).hosts()


def scripts() -> dict[str, str]:
    """All scripts, with values that a shell would take for something else."""
    odd = 'a\'b "c" $(id) `id`'
    return {
        "survey": survey.reaches("10.0.0.1:6379"),
        "install": setup.install(
            digest="d", python="3.11.7", requirements=["a==1"], index_options=[f"--index-url {odd}"]
        ),
        "start": setup.start(
            site="s", digest="d", token=odd, head="h:1", address="a", gpus="2", host="box2", health=HEALTH_ENVIRONMENT
        ),
        "stop": setup.stop(is_forever=True),
    }


@pytest.mark.parametrize("name", ["survey", "install", "start", "stop"])
def test_a_shell_takes_every_script(name: str) -> None:
    subprocess.run(["sh", "-n"], input=scripts()[name], text=True, check=True)


def test_this_machine_is_surveyed(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SSH_CONNECTION": WELL["connection"]}
    done = subprocess.run(
        ["sh", "-s"], input=survey.reaches("127.0.0.1:1"), text=True, capture_output=True, env=environment
    )
    found = survey.read(done.stdout, 0.0, 1e12)
    assert found["machine"] == platform.machine() and found["reach_0"] == "no" and found.gigabytes("disk_kb") > 0
    assert found.our_address == "10.0.0.1" and found.ahead_seconds == 0.0, done.stderr


def test_what_is_stopped_where_nothing_is_does_no_harm(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run(
            ["sh", "-s"],
            input=setup.stop(is_forever=True),
            text=True,
            check=True,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )


def test_a_host_is_written_as_json(tmp_path: Path) -> None:
    HostBook(tmp_path).put(a_host())
    (row,) = json.loads((tmp_path / "hosts.json").read_text())
    assert row["destination"] == "ada@box2" and (tmp_path / "hosts.json").stat().st_mode & 0o077 == 0
