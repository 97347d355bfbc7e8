"""`stoker simulate`: a trace under one or several policies, and everything that can be wrong with the request."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

HEAD = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ROWS = (
    "2017-10-02 00:00:00,1000,4,4000,x\n2017-10-02 00:00:10,500,8,4000,x\n2017-10-02 00:00:20,100,4,400,y\n"
    "2017-10-03 12:00:00,60,1,60,y\n"
)
NODES = ("--nodes", "1x8xV100")


@pytest.fixture
def trace(cli: Cli) -> str:
    """A trace like Philly's."""
    (cli.folder / "philly.csv").write_text(HEAD + ROWS)
    return "philly.csv"


def test_policies_side_by_side(cli: Cli, trace: str) -> None:
    ran = cli("simulate", trace, *NODES, "--compare", "fifo,las", "--backfill", "skip")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["FIGURE", "fifo", "las", "BOUND"]
    table = {line[:19].strip(): line[19:].split() for line in lines}
    assert table["makespan"][0] == "36h01m" and table["refused"] == ["0", "0", "-"]
    assert "4 jobs under fifo, las" in ran.err and "no scheduler can beat" in ran.err
    assert not cli.home.exists()  # no server was needed


def test_a_result_and_a_report(cli: Cli, trace: str) -> None:
    words = (
        "simulate",
        trace,
        *NODES,
        "--policy",
        "fifo",
        "--seed",
        "5",
        "--node-failures",
        "10h",
        "--resumable",
        "0.5",
    )
    ran = cli(*words, "--result", "one.json", "--report", "one.html")
    assert ran.code == 0 and "wrote one.json" in ran.err and "wrote one.html" in ran.err
    assert cli(*words, "--result", "two.json", "--report", "two.html").code == 0
    for ending in ("json", "html"):
        assert (cli.folder / f"one.{ending}").read_bytes() == (cli.folder / f"two.{ending}").read_bytes()
    found = json.loads((cli.folder / "one.json").read_text())
    assert found["trace"]["file"] == "philly.csv" and len(found["trace"]["sha256"]) == 64
    assert found["model"]["node_failures"] == {"mean_seconds_between": 36000.0, "repair_seconds": 3600.0}
    assert str(cli.folder) not in json.dumps(found)
    assert ElementTree.parse(cli.folder / "one.html").getroot().tag == "html"
    assert sorted(path.name for path in cli.folder.iterdir()) == [
        "one.html",
        "one.json",
        "philly.csv",
        "two.html",
        "two.json",
    ]


def test_in_json(cli: Cli, trace: str) -> None:
    found = json.loads(cli("simulate", trace, *NODES, "--json", "--known-run-times").out)
    assert found["schema_version"] == 1 and [p["run_times"] for p in found["policies"]] == ["known"]
    assert found["policies"][0]["policy"] == "priority"  # what a site has that says nothing


def test_an_oracle_is_named_in_the_table(cli: Cli, trace: str) -> None:
    assert "srsf (run times: known)" in cli("simulate", trace, *NODES, "--policy", "srsf", "--known-run-times").out


@pytest.mark.parametrize(
    ("window", "jobs"),
    [
        (("--from", "2017-10-03"), 1),
        (("--to", "2017-10-02"), 3),
        (("--from", "2017-10-02", "--to", "2017-10-03"), 4),
        (("--from", "15"), 2),
        (("--from", "5", "--to", "20"), 1),
        (("--to", "2017-10-02T00:00:15"), 2),
    ],
)
def test_a_window_by_dates_or_seconds(cli: Cli, trace: str, window: tuple[str, ...], jobs: int) -> None:
    found = json.loads(cli("simulate", trace, *NODES, *window, "--json").out)
    assert found["trace"]["jobs"] == jobs and sum(found["trace"]["dropped_rows"].values()) == 4 - jobs
    assert list(found["trace"]["window"].values()) == list(window[1::2])


def test_rules_of_a_site_file(cli: Cli, trace: str) -> None:
    (cli.folder / "site.toml").write_text('policy = "las"\nplacer = "pack"\n[policy_options]\nlevels = 3\n')
    found = json.loads(cli("simulate", trace, *NODES, "--site", "site.toml", "--compare", "las,fifo", "--json").out)
    assert [(p["policy"], p["placer"], p["policy_options"]) for p in found["policies"]] == [
        ("las", "pack", {"levels": 3}),
        ("fifo", "pack", {}),
    ]


def test_jobs_that_fit_nowhere_are_counted(cli: Cli, trace: str) -> None:
    assert "priority: 1 refused; such jobs are in no other figure" in cli("simulate", trace, "--nodes", "1x4xV100").err
    found = json.loads(cli("simulate", trace, "--nodes", "1x4xV100", "--json").out)
    assert found["policies"][0]["jobs"] == {"ended": 3, "refused": 1, "unfinished": 0}


def test_gzip_and_a_named_format(cli: Cli) -> None:
    (cli.folder / "t.csv.gz").write_bytes(gzip.compress((HEAD + ROWS).encode(), mtime=0))
    assert cli("simulate", "t.csv.gz", *NODES, "--format", "philly").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--policy", "fiffo"), 3, "did you mean fifo?"),
        (("--compare", "fifo,lass"), 3, "did you mean las?"),
        (("--placer", "bestfit"), 3, "did you mean best-fit?"),
        (("--backfill", "eazy"), 3, "did you mean easy?"),
        (("--format", "phily"), 3, "did you mean philly?"),
        (("--policy", "0"), 3, "there are fifo, "),
        (("--nodes", "0x8xV100"), 6, "at least 1 node"),
        (("--nodes", "9999999x8xV100"), 6, "more than 100,000 nodes"),
        (("--nodes", "many"), 6, "is not NODESxGPUSxTYPE"),
        (("--nodes", "4x0xV100"), 6, "have no GPU"),
        (("--nodes", ""), 6, "does not say what nodes there were"),
        (("--from", "2017-10-03", "--to", "2017-10-02"), 6, "is not before --to"),
        (("--from", "20", "--to", "20"), 6, "is not before --to"),
        (("--from", "yesterday"), 6, "neither seconds from the trace's zero nor a date"),
        (("--from", "2018-01-01"), 6, "4 jobs, none of them"),
        (("--seed", "-1"), 2, "--seed"),
        (("--node-failures", "-3d"), 6, "is not a time above 0"),
        (("--node-failures", "0"), 6, "is not a time above 0"),
        (("--node-failures", "1s", "--resumable", "0"), 6, "none of 4 jobs ended"),
        (("--repair", "soon"), 6, "is not a time above 0"),
        (("--resumable", "1.5"), 2, "--resumable"),
        (("--restart-seconds", "-1"), 2, "--restart-seconds"),
        (("--restart-seconds", "nan"), 2, "is not a number"),
        (("--lost-seconds", "inf"), 2, "is not a number"),
        (("--report", "no/such/folder.html"), 6, "there is no folder"),
        (("--result", "."), 6, "is a folder"),
        (("--site", "nowhere.toml"), 6, "there is no such file"),
    ],
)
def test_bad_requests(cli: Cli, trace: str, words: tuple[str, ...], code: int, said: str) -> None:
    ran = cli("simulate", trace, *NODES, *words)
    assert ran.code == code and said in ran.err and not ran.out


def test_no_job_fits(cli: Cli) -> None:
    (cli.folder / "philly.csv").write_text(HEAD + "2017-10-02 00:00:10,500,8,4000,x\n")
    ran = cli("simulate", "philly.csv", "--nodes", "1x4xV100")
    assert ran.code == 6 and "none of the 1 jobs" in ran.err and "larger nodes" in ran.err


@pytest.mark.parametrize(("text", "code", "said"), [("x,y\n1,2\n", 6, "not a trace of a known format"), (HEAD, 6, "")])
def test_files_that_hold_no_jobs(cli: Cli, text: str, code: int, said: str) -> None:
    (cli.folder / "odd.csv").write_text(text)
    ran = cli("simulate", "odd.csv", *NODES)
    assert ran.code == code and said in ran.err


def test_a_file_that_is_not_there(cli: Cli) -> None:
    ran = cli("simulate", "nowhere.csv", *NODES)
    assert ran.code == 3 and "no file nowhere.csv" in ran.err


def test_a_report_that_cannot_be_written_is_known_before_the_run(cli: Cli, trace: str) -> None:
    closed = cli.folder / "closed"
    closed.mkdir()
    ran = cli("simulate", trace, *NODES, "--report", str(Path("philly.csv") / "x.html"))
    assert ran.code == 6 and "there is no folder" in ran.err and "jobs under" not in ran.err
