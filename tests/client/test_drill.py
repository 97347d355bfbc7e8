"""What a drill says of a run that was interrupted. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.client.drill import Run, judged, ways_of

UNTOUCHED = Run(job="one", state="SUCCEEDED", seconds=30.0, steps=100, values={"loss": 0.25}, saved_step=100)
KILLED = replace(
    UNTOUCHED,
    job="two",
    steps=70,
    resumed_step=30,
    went_on_at=1005.5,
    interrupted_at=1000.0,
    stopped_step=42,
    was_started_again=True,
)


def test_it_went_on_where_it_was() -> None:
    found = judged("kill", UNTOUCHED, KILLED, 0.0)
    assert (found.problem, found.resumed_step, found.lost_steps, found.again_seconds) == ("", 30, 12, 5.5)
    assert found.is_equal is True


def test_one_that_saves_by_itself_is_known_by_the_steps_that_were_left() -> None:
    found = judged("kill", UNTOUCHED, replace(KILLED, resumed_step=None, went_on_at=None), 0.0)
    assert (found.problem, found.resumed_step, found.lost_steps, found.again_seconds) == ("", 30, 12, None)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (replace(KILLED, resumed_step=None, steps=100), "it began anew, and all of its work was lost"),
        (replace(KILLED, resumed_step=0), "it began anew, and all of its work was lost"),
        (replace(KILLED, values={"loss": 0.26}), "it came to other values: loss 0.25 without an interruption, 0.26 with it"),
        (replace(KILLED, values={}), "it came to other values: loss 0.25 without an interruption, None with it"),
        (replace(KILLED, state="FAILED", message="x\nKeyError: 3"), "it ended FAILED: KeyError: 3"),
        (replace(KILLED, interrupted_at=None), "it was over before it could be interrupted: give it more to do"),
    ],
)  # fmt: skip
def test_what_is_wrong(run: Run, problem: str) -> None:
    assert judged("kill", UNTOUCHED, run, 0.0).problem == problem


def test_replicas_that_go_on_without_one() -> None:
    alone = replace(KILLED, steps=100, resumed_step=None, was_started_again=False)
    found = judged("one", UNTOUCHED, alone, 0.0)
    assert (found.problem, found.resumed_step, found.lost_steps) == ("", None, None)


def test_nothing_that_is_told_is_no_proof() -> None:
    silent = Run(job="one", state="SUCCEEDED", seconds=30.0)
    ended_early = replace(KILLED, steps=40, resumed_step=None, was_started_again=False)
    for way, untouched, run in (
        ("kill", silent, replace(silent, interrupted_at=1.0)),
        ("one", silent, replace(silent, interrupted_at=1.0)),
        ("term", UNTOUCHED, ended_early),
    ):
        assert judged(way, untouched, run, 0.0).problem.startswith("nothing shows that it went on")


def test_values_that_differ_by_little() -> None:
    almost = replace(KILLED, values={"loss": 0.2501})
    assert judged("kill", UNTOUCHED, almost, 0.001).is_equal and not judged("kill", UNTOUCHED, almost, 1e-6).is_equal
    silent = judged("kill", replace(UNTOUCHED, values={}), KILLED, 0.0)
    assert silent.is_equal is None and silent.problem == ""


def test_one_replica_of_one_is_all() -> None:
    assert ways_of({"replicas": 1}, ()) == ["term", "kill"] and ways_of({"replicas": 2}, ()) == ["term", "kill", "one"]
    assert ways_of({"replicas": 2}, ("one",)) == ["one"]


def test_files_tell_of_a_program_that_reports_no_values() -> None:
    silent, left = replace(UNTOUCHED, values={}), {"model": "1", "log": "2"}
    same = judged("kill", replace(silent, files=left), replace(KILLED, values={}, files=left), 0.0)
    assert (same.is_equal, same.other_files, same.problem) == (True, [], "")
    changed = {"model": "1", "log": "3", "part": "4"}
    other = judged("kill", replace(silent, files=left), replace(KILLED, values={}, files=changed), 0.0)
    assert (other.is_equal, other.other_files, other.problem) == (None, ["log", "part"], ""), "they may hold times"
    assert judged("kill", UNTOUCHED, replace(KILLED, files=changed), 0.0).other_files is None, (
        "there is nothing to compare"
    )
