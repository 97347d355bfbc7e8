"""`stoker check`: what a job would run on, or everything that is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

EXAMPLES = Path(__file__).parents[3] / "examples/gpu_cluster"
WRONG = """\
jobIdd: x
labels: {Team: ML}
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-17
  masterConfig:
    acceleratorConfig:
      count: 3
      typ: NVIDIA_TESLA_T4
  workerCount: two
  workerTyp: n1-standard-4
  args:
    - a
    - true
  region: us-centrall1
  pythonVersion: 3.10
"""


def test_a_valid_job_is_priced(cli: Cli) -> None:
    ran = cli("check", str(EXAMPLES / "config.yaml"))
    assert ran.code == 0 and ran.err.endswith("✓ valid\n")
    lines = ran.out.splitlines()
    assert lines[0].split()[:3] == ["ROLE", "COUNT", "MACHINE_TYPE"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["chief", "1", "n1-highcpu-16"],
        ["worker", "9", "n1-highcpu-16"],
        ["ps", "3", "n1-highmem-8"],
    ]
    assert "us-central1-a" in lines[-1]
    assert not cli.home.exists()


def test_in_json(cli: Cli) -> None:
    found = json.loads(cli("check", "--config", str(EXAMPLES / "config.yaml"), "--json").out)
    assert (found["schema_version"], found["valid"], found["region"]) == (1, True, "us-central1")
    assert (found["total"]["replicas"], found["total"]["accelerators"], found["total"]["vcpus"]) == (13, 40, 184)
    assert found["total"]["on_demand_usd_per_hour"] > found["total"]["spot_usd_per_hour"] > 0


def test_by_flags_which_beat_the_file(cli: Cli) -> None:
    ran = cli("check", str(EXAMPLES / "config.yaml"), "--worker-count", "2", "--region", "europe-west1", "--json")
    assert json.loads(ran.out)["region"] == "europe-west1" and json.loads(ran.out)["total"]["replicas"] == 6
    assert json.loads(cli("check", "--scale-tier", "basic-gpu", "--json").out)["total"]["accelerators"] == 1


def test_every_mistake_at_once_with_its_line_and_the_nearest_choice(cli: Cli) -> None:
    (cli.folder / "config.yaml").write_text(WRONG)
    ran = cli("check", "config.yaml")
    assert ran.code == 6 and ran.out == ""
    assert ran.err.splitlines()[0] == "error: not a valid request: 9 mistakes"
    for line, phrase in (
        (1, "did you mean jobId?"),
        (2, "labels.Team"),
        (5, "use n1-highcpu-16"),
        (9, "did you mean type?"),
        (10, "a whole number is needed, not 'two'"),
        (11, "did you mean workerType?"),
        (14, "a text is needed, not true; put it in quotes"),
        (15, "use us-central1"),
        (16, "'3.10' is not known"),
    ):
        assert any(said.startswith(f"  config.yaml:{line} ") and phrase in said for said in ran.err.splitlines()), (
            line,
            ran.err,
        )


def test_mistakes_in_json(cli: Cli) -> None:
    (cli.folder / "config.yaml").write_text(WRONG)
    ran = cli("check", "config.yaml", "--json")
    found = json.loads(ran.out)
    assert (ran.code, ran.err, found["valid"]) == (6, "", False)
    by_line = {m["line"]: m for m in found["mistakes"]}
    assert set(by_line) == {1, 2, 5, 9, 10, 11, 14, 15, 16}
    assert by_line[15]["field"] == "region" and "use us-central1" in by_line[15]["why"]


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n", "- a\n"])
def test_a_file_that_cannot_be_read_in_json(cli: Cli, text: str) -> None:
    (cli.folder / "config.yaml").write_text(text)
    ran = cli("check", "config.yaml", "--json")
    assert ran.code == 6 and json.loads(ran.out)["mistakes"][0]["field"].startswith("config.yaml")


def test_the_documents_mangled_example_is_answered_with_its_true_form(cli: Cli) -> None:
    ran = cli("check", str(EXAMPLES / "mangled.yaml"))
    assert ran.code == 6 and "count hangs below masterType" in ran.err
    true_form = ran.err.partition("the true form is:\n")[2]
    (cli.folder / "mended.yaml").write_text(true_form)
    mended, config = (
        json.loads(cli("check", str(path), "--json").out) for path in ("mended.yaml", EXAMPLES / "config.yaml")
    )
    assert mended == config


def test_a_job_without_a_file_is_the_plainest(cli: Cli) -> None:
    assert cli("check").code == 0


def test_the_sites_region_is_the_default(cli: Cli) -> None:
    assert json.loads(cli("check", "--json", STOKER_REGION="europe-west1").out)["region"] == "europe-west1"
    assert "nowhere: there is no such region" in cli("check", STOKER_REGION="nowhere").err


def test_what_no_zone_has_together_is_told_with_where_it_is(cli: Cli) -> None:
    flags = "--scale-tier custom --master-machine-type n1-standard-8 --master-accelerator count=1,type=nvidia-tesla-t4"
    worker = "--worker-count 1 --worker-machine-type n1-standard-8 --worker-accelerator count=1,type=nvidia-tesla-p100"
    ps = "--parameter-server-count 1 --parameter-server-machine-type n1-standard-8"
    k80 = "--parameter-server-accelerator count=1,type=nvidia-tesla-k80"
    ran = cli("check", *f"{flags} {worker} {ps} {k80} --region us-central1".split())
    assert ran.code == 6 and "must be in one zone" in ran.err
