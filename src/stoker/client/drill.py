"""A drill: the program of a job is run several times as a rehearsal and interrupted on purpose, to see what becomes of its work.

One run is left alone. Of each other the program gets TERM, or is killed, or one of its replicas is; then it is looked whether it
went on where it was, how much was lost, how long that took, and whether it came to the same values in the end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.core.errors import Conflict
from stoker.core.states import FINAL_JOB_STATES

from .results import compared, results

Row = Mapping[str, Any]

WAYS: Mapping[str, str] = {
    "term": "SIGTERM to every replica",
    "kill": "SIGKILL to every replica",
    "one": "SIGKILL to one replica",
}
PART = 0.4
"""After so much of the steps of the run that was left alone, it is interrupted: later, if nothing was saved by then."""

LATEST_PART = 0.8
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a drill."""

    job: str
    state: str
    message: str = ""
    seconds: float = 0.0  # it took
    steps: int = 0  # of its last process
    values: Mapping[str, float] = field(default_factory=dict)  # as it reported them last
    files: Mapping[str, str] = field(default_factory=dict)  # that it left: name → digest
    saved_step: int | None = None
    resumed_step: int | None = None
    went_on_at: float | None = None
    interrupted_at: float | None = None
    stopped_step: int = 0  # as far as was known when it was interrupted
    was_started_again: bool = False  # its chief


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an interruption."""

    way: str
    run: Run
    resumed_step: int | None  # None: it began anew, or nothing is known
    lost_steps: int | None
    again_seconds: float | None  # from the signal to the next step
    is_equal: bool | None  # the values in the end, or if it reports none, its files; None: nothing can be told
    other_files: Sequence[str] | None  # that the undisturbed run has left otherwise, or not at all; None: it left none
    problem: str  # empty: it has passed


def judged(way: str, untouched: Run, run: Run, tolerance: float) -> Outcome:
    """Compare a run that was interrupted with one that was not. Pure."""
    resumed = run.resumed_step
    if resumed is None and run.was_started_again and 0 < run.steps < untouched.steps:
        resumed = untouched.steps - run.steps  # it saves by itself, and did the rest
    is_equal = _are_equal(untouched.values, run.values, tolerance)
    other_files = compared(untouched.files, run.files) if untouched.files else None
    if is_equal is None and other_files == []:
        is_equal = True  # other files prove nothing: there may be times in them
    if run.interrupted_at is None:
        problem = run.message or "it was over before it could be interrupted: give it more to do"
    elif run.state != "SUCCEEDED":
        problem = f"it ended {run.state}: {run.message.splitlines()[-1] if run.message else 'nobody knows why'}"
    elif not resumed and run.was_started_again:
        problem = "it began anew, and all of its work was lost"
    elif not resumed and (way != "one" or not untouched.steps):  # of one replica, the others may not even have noticed
        problem = "nothing shows that it went on: it tells of no steps, or ended when it was interrupted"
    elif is_equal is False:
        problem = f"it came to other values: {_difference(untouched.values, run.values, tolerance)}"
    else:
        problem = ""
    again = run.went_on_at - run.interrupted_at if run.went_on_at is not None and run.interrupted_at else None
    return Outcome(
        way=way,
        run=run,
        resumed_step=resumed or None,
        lost_steps=max(0, run.stopped_step - resumed) if resumed else None,
        again_seconds=again if again is not None and again > 0 else None,
        is_equal=is_equal,
        other_files=other_files,
        problem=problem,
    )


def _are_equal(one: Mapping[str, float], other: Mapping[str, float], tolerance: float) -> bool | None:
    return all(_is_equal(one.get(n), other.get(n), tolerance) for n in {*one, *other}) if one else None


def _is_equal(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)


def _difference(one: Mapping[str, float], other: Mapping[str, float], tolerance: float) -> str:
    name = next(n for n in sorted({*one, *other}) if not _is_equal(one.get(n), other.get(n), tolerance))
    return f"{name} {one.get(name)} without an interruption, {other.get(name)} with it"


class Drill:
    """The runs of one drill."""

    def __init__(self, client: Any, project: str, job: str, job_dir: str, said: Callable[[str], None]) -> None:
        """`job`: whose program it is. `job_dir`: a folder for the runs, each of which has one in it. `said`: told of progress."""
        self._client = client
        self._project = project
        self._job = job
        self._job_dir = job_dir.rstrip("/")
        self._said = said

    def untouched(self, name: str) -> Run:
        """Run it, and leave it alone."""
        self._begin(name)
        self._wait(name)
        return self.run_of(name)

    def interrupted(self, name: str, way: str, untouched: Run) -> Run:
        """Run it, and interrupt it in the middle."""
        self._begin(name)
        last: Row = {}
        while True:
            details, last = self._look(name)
            step, saves = _step(last), last["saves"]["count"]
            part = step / untouched.steps if untouched.steps else self._part_of_time(details, untouched)
            if part >= (PART if saves or not untouched.saved_step else LATEST_PART):
                break
            if details["state"] in map(str, FINAL_JOB_STATES):
                return self.run_of(name)
            time.sleep(_LOOK_SECONDS)
        try:
            replica = _last_replica(details) if way == "one" else ""
            told = self._client.interrupt(self._project, name, "TERM" if way == "term" else "KILL", replica)
        except Conflict:  # it has ended meanwhile
            self._wait(name)
            return self.run_of(name)
        self._said(f"{', '.join(told['replicas'])}: {'TERM' if way == 'term' else 'KILL'} at step {step}")
        self._wait(name)
        return self.run_of(name, interrupted_at=told["at"], stopped_step=step)

    def _begin(self, name: str) -> None:
        self._client.rehearse_again(self._project, self._job, name, f"{self._job_dir}/{name}")

    def _look(self, name: str) -> tuple[Row, Row]:
        return self._client.details(self._project, name), self._client.steps(self._project, name, points=2)

    def _wait(self, name: str) -> None:
        while self._client.details(self._project, name)["state"] not in map(str, FINAL_JOB_STATES):
            time.sleep(_LOOK_SECONDS)

    def _part_of_time(self, details: Row, untouched: Run) -> float:
        """How far it is, if it tells of no steps."""
        if details["state"] != "RUNNING" or not details["started_at"]:
            return 0.0
        return float(time.time() - details["started_at"]) / max(0.1, untouched.seconds)

    def run_of(self, name: str, *, interrupted_at: float | None = None, stopped_step: int = 0) -> Run:
        """What became of a run that has ended."""
        details, training = self._look(name)
        saves = training["saves"]
        values = training["replicas"][0]["values"] if training["replicas"] else {}
        return Run(
            job=name,
            state=details["state"],
            message=details["message"],
            seconds=(details["ended_at"] or 0.0) - (details["started_at"] or details["ended_at"] or 0.0),
            steps=_step(training),
            values={key: float(value) for key, value in values.items()},
            files=results(self._client, self._project, name),
            saved_step=saves["step"],
            resumed_step=saves["resumed_step"],
            went_on_at=saves["went_on_at"],
            interrupted_at=interrupted_at,
            stopped_step=stopped_step,
            was_started_again=len(details["attempts"]) > 1 or any(one["runs"] > 1 for one in training["replicas"][:1]),
        )


def _step(training: Row) -> int:
    return int(training["replicas"][0]["step"]) if training["replicas"] else 0


def _last_replica(details: Row) -> str:
    """One that is not the chief."""
    workers: Sequence[Row] = [m for m in details["machines"] if m["role"] == "worker"]
    role = workers[0] if workers else details["machines"][-1]
    return f"{role['role']}-{role['count'] - 1}"


def ways_of(details: Row, asked: Sequence[str]) -> list[str]:
    """The interruptions that make sense for a job: of one replica alone, `one` is `kill`."""
    return [way for way in asked or WAYS if way != "one" or details["replicas"] > 1]
