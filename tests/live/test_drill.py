"""A drill of real programs: one that goes on where it was, and one that begins anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live

GOES_ON = """
import os, time, stoker
from stoker import checkpoint
state = checkpoint.State(total=0)
for step in state.steps(60):
    state.total += step
    stoker.report(total=state.total)
    time.sleep(0.05)
if os.environ["STOKER_ROLE"] == "chief":
    open(os.environ["STOKER_JOB_DIR"] + "/total.txt", "w").write(str(state.total))
"""
BEGINS_ANEW = """
import time, stoker
for step in range(60):
    stoker.step(loss=60 - step)
    time.sleep(0.05)
"""


def a_job(server: Server, folder: Path, name: str, program: str, *flags: str) -> None:
    (folder / "program.py").write_text(program)
    done = server.cli("run", f"--name={name}", *flags, "--", "python", "program.py", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves("Any other loop", "Goes on after a kill", "at the same step, by `checkpoint.State`")
def test_one_that_goes_on_where_it_was_is_marked(server: Server, tmp_path: Path) -> None:
    a_job(server, tmp_path, "good", GOES_ON, "--workers=1", "--checkpoints=0.3s", "--job-dir=gs://out/good")
    assert not server.client.details("local", "good")["resumable"]
    done = server.cli("drill", "good", "--json", cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["passed"] and [outcome["way"] for outcome in found["outcomes"]] == ["term", "kill", "one"]
    for outcome in found["outcomes"]:
        assert outcome["is_equal"]
        if outcome["way"] == "one":
            assert not outcome["run"]["was_started_again"], "they train each by itself: the chief goes on without it"
        else:
            assert outcome["resumed_step"] > 0 and outcome["again_seconds"] > 0
        assert outcome["run"]["values"] == found["untouched"]["values"] == {"total": 1770.0}
        assert list(outcome["run"]["files"]) == ["total.txt"] and outcome["other_files"] == []
    assert found["outcomes"][0]["lost_steps"] == 0, "told to stop, it saved first"
    details = server.client.details("local", "good")
    assert details["resumable"] and details["labels"] == {"stoker-resumable": "true"}
    assert "one replica" in done.stderr and "good goes on where it was: it is marked as resumable" in done.stderr


@pytest.mark.campaign
def test_one_that_begins_anew_is_not(server: Server, tmp_path: Path) -> None:
    a_job(server, tmp_path, "bad", BEGINS_ANEW, "--job-dir=gs://out/bad")
    done = server.cli("drill", "bad", "--way=kill", cwd=tmp_path, timeout=120)
    assert done.returncode == 1 and "kill: it began anew, and all of its work was lost" in done.stdout + done.stderr
    assert not server.client.details("local", "bad")["resumable"]


def test_what_cannot_be_drilled(server: Server, tmp_path: Path) -> None:
    a_job(server, tmp_path, "nowhere", "print(1)")
    done = server.cli("drill", "nowhere", cwd=tmp_path)
    assert (
        done.returncode == 6 and "nowhere has no job directory" in done.stderr and "give one: --job-dir" in done.stderr
    )
    assert "which job?" in server.cli("drill", cwd=tmp_path).stderr
    assert server.cli("drill", "missing", cwd=tmp_path).returncode != 0
    short = server.cli("drill", "nowhere", "--job-dir=gs://out/short", cwd=tmp_path, timeout=120)
    assert short.returncode == 1 and "over before it could be interrupted" in short.stdout + short.stderr


def test_a_plain_command_is_drilled_as_it_stands(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(GOES_ON)
    flags = ("--way=kill", "--checkpoints=0.3s", "--job-dir=gs://out/plain", "--json")
    done = server.cli("drill", *flags, "--", "python", "program.py", cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["passed"] and [outcome["way"] for outcome in found["outcomes"]] == ["kill"]
    refused = server.cli("drill", "--job-dir=gs://out/plain", "--", "python", "porgram.py", cwd=tmp_path)
    assert "did you mean program.py?" in refused.stderr
    assert (
        "a drill needs a place for checkpoints"
        in server.cli("drill", "--", "python", "program.py", cwd=tmp_path).stderr
    )
