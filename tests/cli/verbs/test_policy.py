"""`stoker policy replay`: what other rules would have done to the jobs of a site."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli


def test_a_sites_own_jobs_under_other_rules(served: Cli) -> None:
    assert served("run", "--name", "replayed", "--gpus", "1", "--", "true").code == 0
    (served.folder / "new.toml").write_text('policy = "las"\n')
    ran = served("policy", "replay", "new.toml", "--report", "page.html")
    assert ran.code == 0 and (served.folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["QUEUE", "JOBS", "GPU-HOURS", "WAIT_BEFORE", "WAIT_AFTER", "CHANGE", "LAST_END"]
    assert any(line.startswith("USER") for line in lines) and any(line.startswith("default") for line in lines)
    assert "against what really happened" in ran.err and "rehearsals are left out" in ran.err


def test_other_machines_in_json(served: Cli) -> None:
    assert served("run", "--name", "replayed_too", "--gpus", "1", "--", "true").code == 0
    found = json.loads(served("policy", "replay", "--add", "2x8xT4", "--last", "1d", "--json").out)
    assert found["jobs"] >= 1 and "2x8xNVIDIA_TESLA_T4" in found["after"]["nodes"]
    assert found["before"]["policy"] == found["after"]["policy"] and found["calibration"]["jobs"] >= 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 6, "nothing would change"),
        (("nowhere.toml",), 6, "there is no such file"),
        (("bad.toml",), 6, "polcy"),
        (("--add", "2xT4"), 6, "--add"),
        (("--add", "2x4xT99"), 3, "no accelerator 'T99'"),
        (("--remove", "nobody"), 3, "cannot remove nobody"),
        (("--add", "1x4xT4", "--last", "never"), 6, "is not a time above 0"),
        (("--add", "1x4xT4", "--report", "no/folder.html"), 6, "there is no folder"),
    ],
)
def test_bad_requests(served: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    (served.folder / "bad.toml").write_text('polcy = "las"\n')
    ran = served("policy", "replay", *words)
    assert ran.code == code and said in ran.err and not ran.out


def test_a_mistyped_subcommand(cli: Cli) -> None:
    ran = cli("policy", "repaly")
    assert ran.code == 2 and "did you mean" in ran.err


def test_a_site_on_which_nothing_has_run(cli: Cli) -> None:
    ran = cli("policy", "replay", "--add", "1x4xT4", STOKER_PORT="0")
    assert cli("down").code == 0
    assert ran.code == 3 and "nothing to replay" in ran.err and "ask for longer" in ran.err
