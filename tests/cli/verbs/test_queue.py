"""`stoker queue`: who waits, in order, and how the queues stand; and the flags that say whose turn it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from tests.cli.conftest import Cli
from tests.conftest import Server, wait_until

SITE = """
[queues.research]
weight = 2
[queues.research.quota]
T4 = 4
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two queues, whose four T4s are held by a job of `research`."""
    home = tmp_path_factory.mktemp("lab")
    (home / "site.toml").write_text(SITE)
    flags = ("--port=0", "--fake=2x4xT4")
    found = embedded.start(read_config({"STOKER_HOME": str(home)}), flags)
    made = Server(home, found, Client(found.url, found.token), flags)
    holding = {"command": ["sleep", "600"], "gpus": 4, "queue": "research"}
    made.client.run("local", {"name": "holds", **holding})
    wait_until(lambda: made.client.details("local", "holds")["state"] == "RUNNING")
    made.client.run("local", {"name": "waits", "priority": 5, **holding})
    wait_until(lambda: made.client.details("local", "waits")["reason"])
    yield made
    made.cli("down", "--cancel-jobs")
    made.client.close()


@pytest.fixture
def in_the_lab(cli: Cli, lab: Server) -> Cli:
    """The command line at the home of that server."""
    return Cli(cli.monkeypatch, cli.capsys, lab.home, cli.folder)


def test_the_queues_and_who_waits(in_the_lab: Cli) -> None:
    ran = in_the_lab("queue")
    queues, jobs = ran.out.split("\n\n")
    assert ran.code == 0 and queues.splitlines()[0].split()[:2] == ["QUEUE", "WEIGHT"]
    assert "50 % (full)" in queues and "NVIDIA_TESLA_T4 4/4" in queues
    (row,) = jobs.splitlines()[1:]
    assert row.split()[:3] == ["1", "waits", "research"] and "1 × 4 GPU" in row
    assert (
        "share 25 %, priority 5" in row and "QUOTA: the queue research holds as much NVIDIA_TESLA_T4 as it may" in row
    )
    assert "order: priority." in ran.err


def test_a_part_of_it(in_the_lab: Cli) -> None:
    assert "1 more wait; --limit shows more" in in_the_lab("queue", "--limit", "0").err
    assert "nobody waits in project other" in in_the_lab("queue", "--project", "other").err
    assert "local/waits" in in_the_lab("queue", STOKER_PROJECT="mine").out


def test_as_json(in_the_lab: Cli) -> None:
    found = json.loads(in_the_lab("queue", "--json").out)
    assert (found["schema_version"], found["waiting"][0]["name"], found["queues"][1]["full"]) == (1, "waits", True)


def test_the_flags_of_run(in_the_lab: Cli, lab: Server) -> None:
    flags = (
        "--queue",
        "research",
        "--priority",
        "1",
        "--preemptible",
        "--resumable",
        "--gpus",
        "0.5",
        "--gpu-type",
        "t4,V100",
    )
    ran = in_the_lab("run", "--async", "--name", "flagged", *flags, "--", "true")
    assert ran.code == 0 and "counted, not enforced" in ran.err
    found = lab.client.details("local", "flagged")
    assert (found["queue"], found["priority"], found["preemptible"], found["resumable"]) == ("research", 1, True, True)
    assert found["machines"][0]["accelerator"] == "NVIDIA_TESLA_T4|NVIDIA_TESLA_V100"
    described = in_the_lab("jobs", "describe", "flagged").err
    assert "queue research, priority 1, preemptible, resumable" in described and "counted, not enforced" in described
    assert "research (preemptible)" in in_the_lab("jobs", "list").out
    lab.client.cancel("local", "flagged")


def test_what_the_site_does_not_have_is_refused(in_the_lab: Cli) -> None:
    ran = in_the_lab("run", "--queue", "reserch", "--", "true")
    assert ran.code == 6 and "did you mean research?" in ran.err
    ran = in_the_lab("run", "--gpus", "2.5", "--", "true")
    assert ran.code == 6 and "the nearest are 2 and 3" in ran.err
    ran = in_the_lab("run", "--gpus", "nan", "--", "true")
    assert ran.code == 6 and "Traceback" not in ran.err


def test_the_flags_of_a_training_job(in_the_lab: Cli, trainer: Path, lab: Server) -> None:
    config = in_the_lab.folder / "config.yaml"
    config.write_text("labels: {team: vision}\ntrainingInput:\n  scheduling: {maxRunningTime: 60s, priority: 1}\n")
    what = ("--package-path", str(trainer), "--module-name", "trainer.task", "--staging-bucket", "gs://some-bucket")
    flags = ("--queue", "research", "--priority", "900", "--resumable", "--no-preemptible", "--config", str(config))
    assert in_the_lab("jobs", "submit", "training", "trained", *what, *flags).code == 0
    found = lab.client.details("local", "trained")
    assert (found["queue"], found["priority"], found["preemptible"], found["resumable"]) == (
        "research",
        900,
        False,
        True,
    )
    sent = lab.client.job("local", "trained")
    assert sent["trainingInput"]["scheduling"] == {"maxRunningTime": "60s", "priority": 900}
    assert sent["labels"] == {
        "team": "vision",
        "stoker-queue": "research",
        "stoker-preemptible": "false",
        "stoker-resumable": "true",
    }
    ran = in_the_lab("rehearse", "--async", "rehearsed", *what, "--queue", "nobodys")
    assert ran.code == 6 and "this site has no queue 'nobodys'" in ran.err


def test_a_server_does_not_start_with_a_file_that_contradicts_itself(cli: Cli) -> None:
    file = cli.folder / "wrong.toml"
    file.write_text('policy = "lass"\n[queues.a]\nweight = 0\n')
    for words in (("up", "--port", "0", "--site", "wrong.toml"), ("config", "check-site", "wrong.toml")):
        ran = cli(*words)
        assert ran.code == 6 and "2 mistakes" in ran.err and "wrong.toml:3 queues.a.weight" in ran.err
    assert embedded.find(read_config({"STOKER_HOME": str(cli.home)})) is None
    ran = cli("nodes", STOKER_SITE=str(file))  # whoever needs a server would start it
    assert ran.code != 0 and "queues.a.weight" in ran.err and "Traceback" not in ran.err


def test_a_site_file_is_checked_without_a_server(cli: Cli) -> None:
    assert cli("config", "check-site").out.splitlines()[1].split()[:2] == ["default", "1"]
    (cli.folder / "site.toml").write_text(SITE)
    ran = cli("config", "check-site", "site.toml")
    assert (ran.code, "NVIDIA_TESLA_T4 4" in ran.out, "default has no quota" in ran.err) == (0, True, True)
    assert (
        json.loads(cli("config", "check-site", "site.toml", "--json").out)["site"]["queues"]["research"]["weight"] == 2
    )
    ran = cli("config", "check-site", "none.toml")
    assert ran.code == 6 and "there is no such file" in ran.err
