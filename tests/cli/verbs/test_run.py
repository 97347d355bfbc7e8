"""`stoker run`: a plain command from the current folder, as a job."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cli.conftest import Cli
from tests.conftest import Server


def write(cli: Cli, program: str, name: str = "train.py") -> None:
    """A program in the folder."""
    (cli.folder / name).write_text(program)


def job_of(ran_err: str) -> str:
    """The name that a job was given."""
    return next(line.split()[1] for line in ran_err.splitlines() if line.endswith("is queued"))


def test_it_prints_what_the_program_prints_and_ends_with_its_result(served: Cli) -> None:
    write(served, "import sys\nprint('out', sys.argv[1:])\nprint('err', file=sys.stderr)\nsys.exit(3)\n")
    ran = served("run", "--", "python", "train.py", "--epochs", "3")
    assert (ran.code, ran.out) == (3, "out ['--epochs', '3']\n")
    name = job_of(ran.err)
    assert name.startswith("train_")
    lines = ran.err.splitlines()
    assert "1 file," in lines[0] and "packed" in lines[0]
    assert "err" in lines and f"✗ {name} failed after" in ran.err
    assert f"stoker why {name}" in lines[-1]


def test_the_folder_is_sent_once(served: Cli) -> None:
    write(served, "print(open('data/x').read())\n")
    (served.folder / "data").mkdir()
    (served.folder / "data/x").write_text("from a file")
    (served.folder / ".git").mkdir()
    first, second = (served("run", "--", "python", "train.py") for _ in range(2))
    assert (first.code, first.out) == (0, "from a file\n") == (second.code, second.out)
    assert "(without .git)" in first.err
    assert "uploaded" in first.err and "uploaded" not in second.err


def test_what_is_large_is_named_before_it_is_sent(served: Cli) -> None:
    with open(served.folder / "weights.bin", "wb") as file:
        file.truncate(30_000_000)
    ran = served("run", "--", "true")
    assert ran.code == 0
    assert ran.err.startswith(
        "· packing 1 file, 30.0 MB\n! weights.bin has 30.0 MB; data is better read from its own place\n"
    )


def test_variables_labels_and_files(served: Cli, server: Server) -> None:
    program = "import os, pathlib\nprint(os.environ['A'])\nd = pathlib.Path(os.environ['STOKER_JOB_DIR'])\n"
    write(served, program + "d.mkdir(parents=True)\n(d / 'model').write_text('trained')\n")
    ran = served(
        *("run", "--name", "with_all", "--env", "A=b=c", "--labels", "team=ml", "--priority", "7"),
        *("--job-dir", "gs://run-bucket/out", "--", sys.executable, "train.py"),
    )
    where = f"  files of gs://run-bucket/out are in {server.home}/buckets/gs/run-bucket/out"
    assert (ran.code, ran.out) == (0, "b=c\n") and ran.err.count(where) == 2  # when it is queued, and when it has ended
    assert (server.home / "buckets/gs/run-bucket/out/model").read_text() == "trained"
    details = server.client.details("local", "with_all")
    assert (details["labels"], details["priority"]) == ({"team": "ml"}, 7)


def test_workers_have_their_names_before_their_lines(served: Cli) -> None:
    write(served, "import os\nprint(os.environ['RANK'] + ' of ' + os.environ['WORLD_SIZE'])\n")
    ran = served("run", "--workers", "2", "--", "python", "train.py")
    assert ran.code == 0
    assert (
        {"chief-0   0 of 3"}
        <= set(ran.out.splitlines())
        <= {"chief-0   0 of 3", "worker-0  1 of 3", "worker-1  2 of 3"}
    )


def test_without_waiting_it_prints_the_name_alone(served: Cli) -> None:
    ran = served("run", "--async", "--name", "in_the_background", "--", "true")
    assert (ran.code, ran.out) == (0, "in_the_background\n")
    assert served("wait", "in_the_background").code == 0


def test_a_program_that_is_not_there(served: Cli) -> None:
    ran = served("run", "--", "no-such-program")
    assert ran.code == 1 and "there is no program 'no-such-program'" in ran.err and "Traceback" not in ran.err


def test_gpus_that_nobody_has_are_refused_with_what_there_is(served: Cli) -> None:
    ran = served("run", "--gpus", "9", "--", "true")
    assert ran.code == 6 and "10 node(s) of 4 NVIDIA_TESLA_T4" in ran.err
    assert "stoker run --rehearse" in ran.err and "stoker rehearse" not in ran.err


def test_gpus_of_declared_nodes_and_of_a_rehearsal(served: Cli) -> None:
    write(served, "import os\nprint(os.environ['STOKER_GPUS_PER_NODE'])\n")
    assert served("run", "--gpus", "4", "--gpu-type", "t4", "--", "python", "train.py").out == "4\n"
    assert served("run", "--gpus", "9", "--rehearse", "--", "python", "train.py").out == "9\n"


def test_a_name_that_is_taken(served: Cli) -> None:
    served("run", "--async", "--name", "taken", "--", "true")
    ran = served("run", "--name", "taken", "--", "true")
    assert ran.code == 6 and "there is a job local/taken already" in ran.err and "choose another name" in ran.err


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--name", "a-b"], "'a-b': letters, digits, underscores"),
        (["--labels", "A=b"], "lower-case"),
        (["--job-dir", "out"], "job_dir: 'out' is neither gs://BUCKET"),
        (["--env", "A\x01=x", "--env", "=x"], "'=x' is not NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_told(served: Cli, words: list[str], phrase: str) -> None:
    ran = served("run", *words, "--", "true")
    assert ran.code == 6 and phrase in ran.err


def test_links_that_lead_outside_are_told_and_not_sent(served: Cli, server: Server) -> None:
    (served.folder.parent / "secret").write_text("secret")
    (served.folder / "link").symlink_to("../secret")
    write(served, "import os\nprint(sorted(os.listdir()))\n")
    ran = served("run", "--", "python", "train.py")
    assert ran.out == "['train.py']\n" and "link (a link that leads outside)" in ran.err


def test_the_job_is_a_job_of_v1_too(served: Cli) -> None:
    served("run", "--async", "--name", "seen_by_v1", "--", "true")
    assert json.loads(served("jobs", "describe", "seen_by_v1", "--format", "json").out)["jobId"] == "seen_by_v1"
