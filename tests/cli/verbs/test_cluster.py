"""`stoker cluster`: cluster files on the command line, and Ray's real launcher on a cloud that is only on paper."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from tests.cli.conftest import Cli, Ran
from tests.engines.cluster_files import SITE, rendered, text_for

ROOT = Path(__file__).parents[3]
RENDER = ("cluster", "render", "--site", "site.toml")
VERSIONS = ("--ray-version", "2.60.0", "--python-version", "3.11.7")


@pytest.fixture
def at_site(cli: Cli) -> Cli:
    """The command line where a site file lies."""
    (cli.folder / "site.toml").write_text(SITE)
    return cli


def test_it_prints_the_file(at_site: Cli) -> None:
    ran = at_site(*RENDER, *VERSIONS, "--provider", "gcp", "--project-id", "my-project")
    assert (ran.code, ran.out, ran.err) == (0, text_for("gcp"), "")
    assert at_site(*RENDER, *VERSIONS, "--provider", "kuberay").out == text_for("kuberay")


def test_it_writes_a_file_once(at_site: Cli) -> None:
    words = (*RENDER, *VERSIONS, "--provider", "gcp", "--project-id", "my-project", "--out", "cluster.yaml")
    ran = at_site(*words)
    assert (ran.code, ran.out) == (0, "") and "stoker cluster up cluster.yaml" in ran.err
    assert (at_site.folder / "cluster.yaml").read_text() == text_for("gcp")
    again = at_site(*words, "--name", "other")
    assert again.code != 0 and "is there already" in again.err and "--force" in again.err
    assert at_site(*words, "--name", "other", "--force").code == 0
    assert yaml.safe_load((at_site.folder / "cluster.yaml").read_text())["cluster_name"] == "other"
    nowhere = at_site(*RENDER, "--provider", "kuberay", "--out", "no/such/folder.yaml")
    assert nowhere.code == 1 and "cannot write no/such/folder.yaml: No such file or directory" in nowhere.err


def test_the_pools_are_those_of_the_servers_site_file(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "site.toml").write_text(SITE)
    ran = cli("cluster", "render", "--provider", "kuberay", "--pool", "cpu8")
    assert [group["groupName"] for group in yaml.safe_load(ran.out)["spec"]["workerGroupSpecs"]] == ["cpu8"]
    unknown = cli("cluster", "render", "--provider", "kuberay", "--pool", "cpu9")
    assert unknown.code != 0 and "no pool 'cpu9'; there are t4x4, cpu8, spot-v100" in unknown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--provider", "gcp"), "--project-id: is needed"),
        (("--provider", "aws"), "which is Google's: say which region of AWS's"),
        (("--provider", "aws", "--region", "us-west-2"), "pools.cpu8: needs `instance"),
        (("--provider", "kuberay", "--zone", "us-west1-a"), "--zone means nothing to kuberay"),
        (("--provider", "gcp", "--select-by", "pool"), "--select-by means nothing to gcp"),
        (("--provider", "kuberay", "--name", "Über"), "'Über' is not a name"),
        (("--provider", "lambda"), "'lambda' is not one of 'aws', 'azure', 'gcp', 'kuberay'"),
        (("--provider", "gcp", "--project-id", "p", "--zone", "us-west1-b"), "no pool is in us-west1-b"),
    ],
)
def test_what_cannot_be_rendered(at_site: Cli, words: tuple[str, ...], said: str) -> None:
    ran = at_site(*RENDER, *words)
    assert ran.code != 0 and said in ran.err and ran.out == ""


def test_a_site_without_pools_is_told_what_one_looks_like(cli: Cli) -> None:
    ran = cli("cluster", "render", "--provider", "kuberay")
    assert ran.code != 0 and "there are none in the site file" in ran.err and "[pools.t4x4]" in ran.err


@pytest.mark.parametrize("verb", ["up", "down", "status"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read cluster.yaml: No such file or directory"),
        ("a: [", "cluster.yaml: is no YAML"),
        ("[pools]", "cluster.yaml: is no cluster file"),
        ("cluster_name: x\n", "cluster.yaml: is no cluster file"),
        (text_for("kuberay"), "kubectl apply -f cluster.yaml · kubectl -n default get raycluster stoker"),
        (text_for("aws"), "pip install boto3"),
    ],
)
def test_what_rays_launcher_is_not_given(cli: Cli, verb: str, text: str | None, said: str) -> None:
    if text is not None:
        (cli.folder / "cluster.yaml").write_text(text)
    ran = cli("cluster", verb, "cluster.yaml", PATH=str(_programs(cli)))
    assert ran.code != 0 and said in ran.err


def test_what_the_launcher_needs_of_this_machine(cli: Cli) -> None:
    (cli.folder / "cluster.yaml").write_text(text_for("gcp"))
    ran = cli("cluster", "up", "cluster.yaml", PATH=str(cli.folder))
    assert ran.code == 1 and "needs ssh and rsync here" in ran.err


@pytest.mark.live
@pytest.mark.campaign
def test_a_cluster_goes_up_and_down_by_rays_launcher(cli: Cli) -> None:
    """What is rendered for Google Cloud, on a cloud that only writes down what it is told."""
    pytest.importorskip("ray")
    content = rendered("gcp")
    content["provider"] = {
        "type": "external",
        "module": "tests.engines.paper_cloud.PaperCloud",
        "folder": str(cli.folder),
    }
    (cli.folder / "cluster.yaml").write_text(yaml.safe_dump(content))
    there = {"HOME": str(cli.folder), "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

    there["TMPDIR"] = str(cli.folder)  # where Ray keeps what it has worked out of the file
    ran = cli("cluster", "up", "cluster.yaml", **there)
    assert ran.code == 0 and "the cluster stoker is up; its head is 192.0.2.1" in ran.err, _story(ran, cli)
    assert "stoker up --host ADDRESS --engine ray --address HEAD:6379" in ran.err
    (head,) = json.loads((cli.folder / "machines.json").read_text()).values()
    assert head["config"] == content["available_node_types"]["ray_head"]["node_config"]
    token = (cli.folder / ".ray" / "auth_token").read_text()
    assert len(token) == 64 and token not in ran.out + ran.err
    copied = {row["to"]: row["copy"] for row in _commands(cli) if "copy" in row}
    assert copied["~/.ray/auth_token"] == str(cli.folder / ".ray" / "auth_token")
    run = [row for row in _commands(cli) if row.get("run")]
    assert [row["run"] for row in run if row["run"] in content["setup_commands"]] == content["setup_commands"]
    start = run[-1]
    assert start["run"].endswith(content["head_start_ray_commands"][1]) and "RAY_enable_autoscaler_v2=1" in start["run"]
    assert start["environment"]["RAY_OVERRIDE_RESOURCES"] == {"CPU": 0}
    assert start["environment"]["RAY_USAGE_STATS_ENABLED"] == 0
    assert HEALTH_ENVIRONMENT.items() <= dict(_exported(start["run"])).items()

    assert cli("cluster", "status", "cluster.yaml", **there).code == 0
    assert _commands(cli)[-1]["run"] == "RAY_AUTH_MODE=token ray status"

    ran = cli("cluster", "down", "cluster.yaml", **there)
    assert ran.code == 0 and "the cluster stoker is down" in ran.err, _story(ran, cli)
    assert json.loads((cli.folder / "machines.json").read_text()) == {}
    assert cli("cluster", "status", "cluster.yaml", **there).code == 1  # no head: Ray's own exit code


def _programs(cli: Cli) -> Path:
    """A folder with programs of the names that are looked for."""
    folder = cli.folder / "programs"
    folder.mkdir(exist_ok=True)
    for name in ("ssh", "rsync"):
        (folder / name).touch(mode=0o755)
    return folder


def _commands(cli: Cli) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cli.folder / "commands.jsonl").read_text().splitlines()]


def _exported(command: str) -> list[tuple[str, str]]:
    words = [word.rstrip(";") for word in command.split()]
    return [(name, value) for name, is_given, value in (word.partition("=") for word in words) if is_given]


def _story(ran: Ran, cli: Cli) -> str:
    files = "\n".join(path.read_text() for path in sorted(cli.folder.glob("*.json*")))
    return f"{ran.out}\n{ran.err}\n{files}"
