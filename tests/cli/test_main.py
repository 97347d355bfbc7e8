"""`stoker` itself: its help, what it imports, and how every mistake looks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stoker import __version__
from stoker.cli import output
from stoker.cli.main import VERBS
from tests.cli.conftest import Cli


def imported(*words: str) -> set[str]:
    """The top-level packages that a command has imported, in a process of its own."""
    program = (
        "import json, sys\nfrom stoker.cli.main import main\n"
        f"try:\n    main({list(words)!r})\n"
        "except SystemExit:\n    print(json.dumps([m.partition('.')[0] for m in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out == f"stoker, version {__version__}\n"


def test_what_need_not_be_imported_is_not() -> None:
    heavy = {"httpx", "yaml", "rich", "fastapi", "pydantic", "sqlalchemy", "uvicorn", "numpy", "psutil", "setuptools"}
    heavy |= {"textual", "pygments"}
    assert not heavy & imported("--version")
    assert not heavy & imported("--help")
    assert not heavy - {"yaml"} & imported("check")
    assert not heavy & imported("top", "--help")
    assert "textual" not in imported("top", "--once"), "only the full screen needs it"


def test_the_help_names_every_verb(cli: Cli) -> None:
    ran = cli("--help")
    assert ran.code == 0 and all(f"\n  {verb} " in ran.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(cli: Cli, verb: str) -> None:
    ran = cli(verb, "--help")
    assert (ran.code, ran.err) == (0, "") and ran.out.startswith(f"Usage: stoker {verb}")


def test_nothing_asked_for_shows_the_help(cli: Cli) -> None:
    for words in ((), ("jobs",), ("jobs", "submit"), ("config",), ("local",)):
        ran = cli(*words)
        assert ran.code == 2 and ran.err.startswith("Usage: stoker") and "error" not in ran.err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["rnu"], "did you mean `stoker run`?"),
        (["jobs", "lst"], "did you mean `stoker jobs list`?"),
        (["jobs", "submit", "trainin"], "did you mean `stoker jobs submit training`?"),
        (["xyzzy"], "there are: run, jobs"),
        (["help", "jobs", "submti"], "did you mean `stoker jobs submit`?"),
        (["run", "--gpsu", "1", "--", "x"], "--gpus"),
        (["jobs", "submit", "training", "--master-machine-typ", "x"], "--master-machine-type"),
        (["jobs", "submit", "training", "--scale-tier", "huge"], "'basic-gpu'"),
        (["jobs", "list", "--limit", "-1"], "x>=0"),
        (["jobs", "describe"], "Missing argument 'JOB'"),
        (["up", "--port", "abc"], "'abc' is not a valid integer range"),
        (["up", "--port", "70000"], "70000 is not in the range"),
        (["run", "python", "train.py", "--epochs", "3"], "stoker run -- python train.py --epochs 3"),
        (["run", "--gpus", "1"], "what is to run?"),
        (["run", "--gpus", "65", "--", "x"], "65.0 is not in the range"),
        (["local", "train"], "Missing option '--module-name'"),
        (["completion", "tcsh"], "'bash', 'zsh', 'fish'"),
        (["jobs", "submit", "training", "j", "--async", "--stream-logs"], "exclude each other"),
        (["jobs", "update", "j"], "--update-labels"),
    ],
)
def test_a_command_that_was_not_understood(cli: Cli, words: list[str], phrase: str) -> None:
    ran = cli(*words)
    assert (ran.code, ran.out) == (2, "")
    assert phrase in ran.err and "Traceback" not in ran.err
    assert len(ran.err.splitlines()) == 2 and ran.err.splitlines()[1].endswith("--help shows how")
    assert not cli.home.exists()  # no server was started for it


@pytest.mark.parametrize(
    ("words", "code", "phrases"),
    [
        (["machines", "n1-highcpu16"], 3, ["no machine type 'n1-highcpu16'", "did you mean n1-highcpu-16"]),
        (["accelerators", "t5"], 3, ["no accelerator 't5'", "did you mean T4?"]),
        (["accelerators", "nvidia-tesla-t44"], 3, ["did you mean NVIDIA_TESLA_T4"]),
        (["accelerators", "zzz"], 3, ["stoker accelerators lists them"]),
        (["machines", "--gpu", "v10"], 3, ["did you mean"]),
        (["regions", "us-centrall1"], 3, ["did you mean us-central1"]),
        (["regions", "--gpu", "t5"], 3, ["did you mean T4?"]),
        (["run", "--gpu-type", "t5", "--gpus", "1", "--", "x"], 3, ["did you mean T4?"]),
        (["run", "--env", "NOVALUE", "--", "x"], 6, ["--env", "'NOVALUE' is not NAME=VALUE"]),
        (["config", "get", "prt"], 6, ["no such setting", "did you mean port?"]),
        (["config", "set", "nonsense", "x"], 6, ["no such setting", "there are home, url"]),
        (["config", "set", "port", "70000"], 6, ["a port is a number from 0 to 65535"]),
        (["status"], 5, ["no server runs here", "stoker up"]),
        (["check", "nothing.yaml"], 6, ["nothing.yaml: no such file"]),
        (["jobs", "submit", "training"], 6, ["a job needs a name"]),
        (["jobs", "submit", "training", "bad-id"], 6, ["'bad-id' is not a job id"]),
        (["local", "train", "--module-name", "x.y", "--package-path", "nothing"], 6, ["is not a folder"]),
    ],
)
def test_an_error_says_what_and_what_to_do(cli: Cli, words: list[str], code: int, phrases: list[str]) -> None:
    ran = cli(*words)
    assert ran.code == code, ran.err
    assert ran.err.startswith("error: ") and all(phrase in ran.err for phrase in phrases), ran.err
    assert "Traceback" not in ran.err and len(ran.err.splitlines()) <= 3
    assert not cli.home.exists()


def test_a_setting_that_is_wrong_is_told_with_where_it_was_said(cli: Cli) -> None:
    assert "port: 'x' (environment)" in cli("status", STOKER_PORT="x").err
    (cli.folder / "stoker.yaml").write_text("projct: x\n")
    ran = cli("jobs", "list")
    assert ran.code == 6 and "stoker.yaml" in ran.err and "did you mean project?" in ran.err


def test_what_nobody_expected_is_one_line_and_how_to_see_more(cli: Cli) -> None:
    (cli.folder / "trainer").mkdir()
    (cli.folder / "trainer/__init__.py").touch()
    words = ["local", "train", "--package-path", "trainer", "--module-name", "trainer.task", "--", "a\x00b"]
    ran = cli(*words)  # the system takes no such argument
    assert ran.code == 1 and ran.err.startswith(
        "error: something went wrong inside Stoker: ValueError: embedded null byte"
    )
    assert "STOKER_DEBUG=1" in ran.err and "Traceback" not in ran.err


def test_the_curious_get_the_traceback(cli: Cli) -> None:
    command = [sys.executable, "-m", "stoker.cli.main", "local", "train", "--module-name", "x"]
    done = subprocess.run(
        command, cwd=cli.folder, env={"STOKER_DEBUG": "1", "STOKER_HOME": str(cli.home), "STOKER_PORT": "x"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr  # Python's own: No module named x


def test_a_reader_who_leaves_is_no_error(cli: Cli) -> None:
    read = "import sys; sys.stdin.readline()"
    done = subprocess.run(
        f"{sys.executable} -m stoker.cli.main machines --all --json | {sys.executable} -c '{read}'; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        cwd=cli.folder,
        capture_output=True,
        text=True,
    )
    assert (done.returncode in (0, 141), done.stderr) == (True, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "machines --all", "machines --all --json"])
def test_an_output_that_is_full_is_told(cli: Cli, words: str, unbuffered: str) -> None:
    command = [sys.executable, "-m", "stoker.cli.main", *words.split()]
    environment = {"PYTHONUNBUFFERED": unbuffered, "STOKER_HOME": str(cli.home)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=cli.folder, env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    said = "error: cannot write to the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_another_file_that_is_full_is_not_the_output() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        with pytest.raises(OSError, match="No space") as raised:
            full.write(b"text")
        assert output.failure(raised.value) is None
        with pytest.raises(OSError, match="No space") as raised:
            click.echo(b"text", file=full)
        assert output.failure(raised.value) is raised.value


def test_an_output_that_is_closed_is_not_written_to(cli: Cli) -> None:
    command = f"{sys.executable} -m stoker.cli.main machines --all >&-"
    done = subprocess.run(command, shell=True, cwd=cli.folder, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_our_signs_gets_others(cli: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stoker.cli.main", "check"]
    environment = {"PYTHONIOENCODING": "latin-1", "STOKER_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=cli.folder, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"? valid\n")
