"""`stoker jobs`: what scripts know from `gcloud ai-platform jobs`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Cli, on_a_terminal
from tests.conftest import Server, wait_until

SUBMIT = ("jobs", "submit", "training")
TRAINER = ("--package-path", "trainer", "--module-name", "trainer.task")
PACKAGED = ("--packages", "gs://nobody/x.whl", "--module-name", "x.y")
CUSTOM = ("--scale-tier", "custom", "--master-machine-type", "n1-standard-4")


def test_a_script_of_the_documents_with_gclouds_name_replaced(served: Cli, server: Server, trainer: Path) -> None:
    (served.folder / "config.yaml").write_text("trainingInput:\n  scaleTier: BASIC\n  args: [of, the, file]\n")
    ran = served(
        *SUBMIT,
        *("documented", "--package-path", "trainer", "--module-name", "trainer.task"),
        *("--job-dir", "gs://docs-bucket/out", "--region", "us-central1", "--config", "config.yaml"),
        *("--stream-logs", "--", "--user_arg_1", "value_1"),
    )
    path = server.home / "buckets/gs/docs-bucket/out"
    assert ran.code == 0, ran.err
    assert f"arguments ['--user_arg_1', 'value_1', '--job-dir', '{path}']" in ran.out
    assert (path / "model.txt").read_text() == "trained"
    assert "packed 2 files" in ran.err and "documented is queued in project local: chief standard" in ran.err
    assert ran.err.count(f"  files of gs://docs-bucket/out are in {path}") == 2
    assert "✓ documented succeeded in" in ran.err


def test_without_streaming_it_answers_at_once_as_gcloud_does(served: Cli, trainer: Path) -> None:
    ran = served(*SUBMIT, "at_once", *TRAINER, "--async", "-q", "--verbosity", "error", "--account", "a@b")
    assert (ran.code, yaml.safe_load(ran.out)) == (0, {"jobId": "at_once", "state": "QUEUED"})
    assert "stoker jobs stream-logs at_once" in ran.err
    assert served(*SUBMIT, "by_format", *TRAINER, "--format", "value(jobId,state)").out == "by_format\tQUEUED\n"
    assert served("jobs", "stream-logs", "at_once").code == 0


def test_streaming_ends_with_the_programs_result_and_says_what_to_try(served: Cli, trainer: Path) -> None:
    ran = served(*SUBMIT, "failing", *TRAINER, "--stream-logs", "--", "--fail")
    assert ran.code == 7
    assert "exited with a non-zero status of 7" in ran.err and "stoker why failing" in ran.err
    assert served("jobs", "stream-logs", "failing").code == 7
    assert served("wait", "failing").code == 7
    assert served("wait", "--status-codes", "failing").code == 100
    why = served("why", "failing")
    assert why.code == 0 and "failing is FAILED" in why.out and "stoker logs failing" in why.out
    assert json.loads(served("why", "failing", "--json").out)["state"] == "FAILED"


def test_a_module_that_is_not_in_the_package_is_refused_before_anything_is_sent(served: Cli, trainer: Path) -> None:
    ran = served(*SUBMIT, "no_module", "--package-path", "trainer", "--module-name", "trainer.tsk", "--stream-logs")
    assert ran.code == 6 and "did you mean trainer.task?" in ran.err
    assert served("jobs", "describe", "no_module").code == 3, "no job was made of it"


def test_a_package_that_cannot_be_installed_fails_the_job_with_the_installers_words(served: Cli) -> None:
    (served.folder / "broken-1.0.tar.gz").write_bytes(b"this is not an archive")
    ran = served(*SUBMIT, "broken_package", "--packages", "broken-1.0.tar.gz", "--module-name", "x.y", "--stream-logs")
    assert ran.code == 1 and "broken-1.0.tar.gz is not a readable package" in ran.err


REFUSED = {
    "a package that nobody has": (
        ["--packages", "gs://nobody/x.tar.gz", "--module-name", "x.y"],
        "x.tar.gz does not exist",
    ),
    "a folder without __init__.py": (["--package-path", ".", "--module-name", "x.y"], "touch "),
    "a folder that is not there": (["--package-path", "nothing", "--module-name", "x.y"], "is not a folder"),
    "no package at all": (["--module-name", "x.y"], "at least one package"),
    "no module": (["--package-path", "trainer"], "needs the module to run"),
    "a local file that is not there": (["--packages", "x.whl", "--module-name", "x.y"], "x.whl is not a file"),
    "a job dir that is none": ([*PACKAGED, "--job-dir", "out"], "job_dir: 'out' is neither gs://BUCKET"),
    "a job dir that leads out": ([*PACKAGED, "--job-dir", "gs://bucket/../x"], "job_dir:"),
    "a staging bucket that is none": ([*TRAINER, "--staging-bucket", "../x"], "--staging-bucket"),
    "a region that is none": ([*PACKAGED, "--region", "us-centrall1"], "use us-central1"),
    "workers of no type": ([*PACKAGED, *CUSTOM, "--worker-count", "2"], "worker_type"),
    "an image and a runtime": (["--master-image-uri", "gcr.io/p/i", "--runtime-version", "2.11"], "runtime_version"),
    "what nobody has": (
        [*TRAINER, "--scale-tier", "custom", "--master-machine-type", "complex_model_m_p100"],
        "stoker rehearse",
    ),
    "a TPU": ([*PACKAGED, "--scale-tier", "basic-tpu"], "no TPUs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(served: Cli, trainer: Path, case: str) -> None:
    words, phrase = REFUSED[case]
    ran = served(*SUBMIT, "refused", *words)
    assert (ran.code, ran.out) == (6, "") and phrase in ran.err, ran.err
    assert "Traceback" not in ran.err
    assert served("jobs", "describe", "refused").code == 3


def test_a_mistake_is_told_with_its_line(served: Cli, trainer: Path) -> None:
    (served.folder / "config.yaml").write_text("trainingInput:\n  scaleTier: CUSTOM\n  masterTyp: n1-standard-4\n")
    ran = served(*SUBMIT, "misspelt", *TRAINER, "--config", "config.yaml")
    assert ran.code == 6 and "config.yaml:3 training_input" in ran.err and "did you mean masterType?" in ran.err


@pytest.mark.parametrize(
    "text", ["a: [", "- a\n", "a: &x [1]\nb: *x\n", "trainingInput: x\n", "trainingInput:\n", "a: 1\na: 2\n"]
)
def test_a_broken_file_is_told(served: Cli, trainer: Path, text: str) -> None:
    (served.folder / "config.yaml").write_text(text)
    ran = served(*SUBMIT, "broken_file", "--config", "config.yaml")
    assert ran.code == 6 and ran.err.startswith("error: ") and "Traceback" not in ran.err


def test_an_id_is_taken_for_good(served: Cli, trainer: Path) -> None:
    assert served(*SUBMIT, "taken_id", *TRAINER).code == 0
    ran = served(*SUBMIT, "taken_id", *TRAINER)
    assert ran.code == 6 and "there is a job local/taken_id already" in ran.err and "choose another name" in ran.err


def test_another_project(served: Cli, trainer: Path) -> None:
    assert served(*SUBMIT, "elsewhere", *TRAINER, "--project", "other-project").code == 0
    assert served("jobs", "describe", "elsewhere").code == 3
    assert served("jobs", "describe", "elsewhere", "--project", "other-project").code == 0
    assert served("jobs", "list", "--format", "value(jobId)", STOKER_PROJECT="other-project").out == "elsewhere\n"
    assert served("jobs", "list", "--project", "../x").code == 6


def test_describe(served: Cli, server: Server, trainer: Path) -> None:
    served(*SUBMIT, "described", *TRAINER, "--job-dir", "gs://docs-bucket/d", "--labels", "a=b", "--stream-logs")
    ran = served("jobs", "describe", "described")
    shown = yaml.safe_load(ran.out)
    assert (shown["jobId"], shown["state"], shown["labels"]) == ("described", "SUCCEEDED", {"a": "b"})
    assert "attempt 1: ENDED COMPLETED on " in ran.err and f"are in {server.home}" in ran.err
    assert served("jobs", "describe", "described", "--format", "value(state)").out == "SUCCEEDED\n"
    details = json.loads(served("jobs", "describe", "described", "--json").out)
    assert details == json.loads(served("jobs", "describe", "described", "--format=json").out), "one shape"
    assert (details["jobId"], details["attempts"][0]["replicas"][0]["exit_code"]) == ("described", 0)
    assert details["job_dir_path"] == str(server.home / "buckets/gs/docs-bucket/d")
    wrong = served("jobs", "describe", "described", "--format", "table")
    assert wrong.code == 6 and "--format: 'table' is not json, yaml or value(FIELD)" in wrong.err


def test_list(served: Cli, trainer: Path) -> None:
    empty = served("jobs", "list", "--project", "nobody")
    assert (empty.code, empty.out) == (0, "") and "no jobs yet" in empty.err
    for name in ("listed_1", "listed_2", "listed_3"):
        served("run", "--async", "--name", name, "--project", "listing", "--", "true")
    ran = served("jobs", "list", "--project", "listing", "--limit", "2", "--page-size", "5")
    lines = ran.out.splitlines()
    assert lines[0].split() == [
        "JOB_ID",
        "STATUS",
        "USER",
        "QUEUE",
        "REPLICAS",
        "GPUS",
        "SUBMITTED",
        "DURATION",
        "REASON",
    ]
    assert [line.split()[0] for line in lines[1:]] == ["listed_3", "listed_2"]
    assert "there are more: --limit 100, or 0 for all" in ran.err
    found = json.loads(served("jobs", "list", "--project", "listing", "--json").out)
    assert [(job["jobId"], job["name"]) for job in found] == [(f"listed_{n}",) * 2 for n in (3, 2, 1)]
    as_json = served("jobs", "list", "--project", "listing", "--format=json", "--page-size=1", "--limit=0").out
    assert [job["jobId"] for job in json.loads(as_json)] == ["listed_3", "listed_2", "listed_1"], "one shape"


def test_a_list_of_some_in_another_order(served: Cli) -> None:
    for name, team, code in (("b_1", "x", "0"), ("a_2", "y", "1"), ("c_3", "x", "1")):
        served("run", "--name", name, "--project", "some", "--labels", f"team={team}", "--", "sh", "-c", f"exit {code}")

    def listed(*flags: str) -> list[str]:
        return served("list", "--project", "some", "--format=value(jobId)", *flags).out.split()

    assert listed() == ["c_3", "a_2", "b_1"] and listed("--sort-by=jobId") == ["a_2", "b_1", "c_3"]
    assert listed("--state=failed") == ["c_3", "a_2"] == listed("--filter=state=FAILED")
    assert (
        listed("--label=team=x", "--state=failed,cancelled")
        == ["c_3"]
        == listed("--filter=labels.team=x AND state!=SUCCEEDED")
    )
    assert listed("--since=1h", "--sort-by=~createTime", "--limit=1") == ["c_3"] and listed("--user=nobody") == []
    assert listed("--queue=default", "--label=team") == ["c_3", "a_2", "b_1"]
    assert served("list", "--project", "some", "--user", "nobody").err == "no job passes\n"
    for flag, told in (
        ("--state=lost", "LOST is not a state; there are QUEUED"),
        ("--sort-by=colour", "'colour' is no field; there are jobId"),
        ("--filter=colour=red", "no field 'colour' to filter by; there are createTime"),
        ("--since=soon", "write 90s"),
    ):
        ran = served("list", "--project", "some", flag)
        assert ran.code != 0 and told in ran.err, ran.err


def test_a_narrow_terminal_gets_fewer_columns_and_no_cut_words(served: Cli, server: Server) -> None:
    served("run", "--name", "narrow", "--project", "narrow", "--", "sh", "-c", "exit 3")
    asked = ("jobs", "list", "--project", "narrow")
    wide, narrow = (on_a_terminal(server, *asked, COLUMNS=width, NO_COLOR="1") for width in ("400", "60"))
    assert "REASON" in wide and "non-zero status of 3" in wide
    assert "REASON" not in narrow.splitlines()[0] and max(map(len, narrow.splitlines())) <= 60
    assert "left out for want of room: " in narrow
    assert "REASON" in served(*asked, COLUMNS="60").out, "a pipe gets all of it"


def test_cancel(served: Cli) -> None:
    served("run", "--async", "--name", "to_cancel", "--", "sleep", "1000")
    wait_until(lambda: served("jobs", "describe", "to_cancel", "--format", "value(state)").out == "RUNNING\n")
    ran = served("jobs", "cancel", "to_cancel", "--quiet")
    assert ran.code == 0 and "to_cancel is" in ran.err
    ended = served("wait", "to_cancel")
    assert ended.code == 1 and "■ to_cancel cancelled after" in ended.err
    assert served("wait", "--status-codes", "to_cancel").code == 103
    assert "to_cancel is cancelled" in served("jobs", "cancel", "to_cancel").err  # of no effect
    assert json.loads(served("jobs", "describe", "to_cancel", "--format", "json").out)["state"] == "CANCELLED"


def test_cancelling_what_has_ended_says_so(served: Cli) -> None:
    served("run", "--name", "ended_before", "--", "true")
    assert "ended_before had succeeded already" in served("jobs", "cancel", "ended_before").err


def test_update(served: Cli) -> None:
    served("run", "--async", "--name", "labelled", "--labels", "a=1,b=2", "--", "true")

    def labels() -> object:
        return json.loads(served("jobs", "describe", "labelled", "--json").out)["labels"]

    assert "labels of labelled: a=1, b=3, c=4" in served("jobs", "update", "labelled", "--update-labels", "b=3,c=4").err
    assert labels() == {"a": "1", "b": "3", "c": "4"}
    served("jobs", "update", "labelled", "--remove-labels", "a, c")
    assert labels() == {"b": "3"}
    served("jobs", "update", "labelled", "--clear-labels", "--update-labels", "d=5")
    assert labels() == {"d": "5"}
    wrong = served("jobs", "update", "labelled", "--update-labels", "D=5")
    assert wrong.code == 6 and "labels.D" in wrong.err and labels() == {"d": "5"}


@pytest.mark.parametrize(
    "words",
    [
        "jobs describe",
        "jobs cancel",
        "jobs stream-logs",
        "jobs update --clear-labels",
        "logs",
        "logs -f",
        "wait",
        "why",
    ],
)
def test_a_job_that_never_was(served: Cli, words: str) -> None:
    for name in ("never_was", "a/b", "..", "a b"):
        ran = served(*words.split(), name)
        assert ran.code == 3 and ran.err.startswith("error: no job"), ran.err
        assert "stoker jobs list shows what there is" in ran.err


def test_stream_logs_of_one_replica_by_gclouds_name(served: Cli) -> None:
    program = ("python", "-c", "import os; print('I am', os.environ['STOKER_ROLE'])")
    served("run", "--name", "of_two", "--workers", "1", "--", *program)
    ran = served("jobs", "stream-logs", "of_two", "--task-name", "master-replica-0", "--allow-multiline-logs")
    assert (ran.code, ran.out) == (0, "I am chief\n")
    wrong = served("jobs", "stream-logs", "of_two", "--task-name", "worker-replica-7")
    assert wrong.code == 3 and "there are chief-0, worker-0" in wrong.err
