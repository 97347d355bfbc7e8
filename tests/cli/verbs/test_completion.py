"""`stoker completion`, and what it completes."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "complete -o"), ("zsh", "#compdef stoker"), ("fish", "complete --no-files")]
)
def test_the_script_of_a_shell(cli: Cli, shell: str, sign: str) -> None:
    ran = cli("completion", shell)
    assert ran.code == 0 and sign in ran.out and "_STOKER_COMPLETE" in ran.out


def completed(cli: Cli, line: str) -> list[str]:
    """What a shell would offer after this line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - (not line.endswith(" ")))}
    return [
        found.partition(",")[2] for found in cli(_STOKER_COMPLETE="bash_complete", **words).out.splitlines() if found
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("stoker re", ["regions", "rehearse", "restore"]),
        ("stoker jobs de", ["describe"]),
        ("stoker jobs submit training --master-ac", ["--master-accelerator"]),
        ("stoker jobs submit training --scale-tier basic-", ["basic-gpu", "basic-tpu"]),
        ("stoker jobs describe x", []),
    ],
)
def test_verbs_flags_and_choices_without_a_server(cli: Cli, line: str, found: list[str]) -> None:
    assert sorted(completed(cli, line)) == sorted(found)
    assert not cli.home.exists()


def test_the_names_of_jobs(served: Cli) -> None:
    for name in ("complete_1", "complete_2"):
        served("run", "--async", "--name", name, "--", "true")
    for verb in ("jobs describe", "logs", "wait", "why", "jobs cancel"):
        assert sorted(completed(served, f"stoker {verb} complete_")) == ["complete_1", "complete_2"]
