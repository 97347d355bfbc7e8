"""The checker of a round finds what it looks for: every history here is wrong in one way."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .check import Findings, check
from .databases import Sqlite

SCHEMA = """
CREATE TABLE jobs (id, state, live); CREATE TABLE attempts (id, live); CREATE TABLE holdings (n);
CREATE TABLE story (n, at);
INSERT INTO story VALUES (1, 1.0), (2, 2.0);
INSERT INTO jobs VALUES ('chaos/a', 'SUCCEEDED', 0);
INSERT INTO attempts VALUES ('chaos/a.1', 0);
"""
ASKED = {"what": "asks", "job": "a", "kind": "plain", "lines": 2, "workers": 0}
ACKNOWLEDGED = {"what": "acknowledged", "job": "a"}
RUN = "start 1 0 77 5.0\nend 1 0 77 6.0\n"
LINES = ["line 1 0 0", "line 1 0 1"]


def findings(
    tmp_path: Path, *, sql: str = "", journal: tuple[object, ...] = (), run: str = RUN, lines: list[str] = LINES,
    log: str = "", numbers: tuple[int, ...] = (1, 2), aside: tuple[int, ...] = (),
) -> Findings:  # fmt: skip
    """Of a round of one job, which is right but for what is given."""
    home, journals, witness = (tmp_path / name for name in ("home", "journals", "witness"))
    for folder in (home / "logs/chaos", journals, witness):
        folder.mkdir(parents=True)
    with closing(sqlite3.connect(home / "stoker.db")) as db:
        db.executescript(SCHEMA + sql)
    (journals / "c0.jsonl").write_text("".join(json.dumps(e) + "\n" for e in (ASKED, ACKNOWLEDGED, *journal)))
    (witness / "a.chief-0.witness").write_text(run)
    rows = [
        {"a": "chaos/a.1", "r": "chief-0", "n": n, "s": "out", "m": text}
        for n, text in zip(numbers, lines, strict=True)
    ]
    (home / "logs/chaos/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = [{"a": "chaos/a.1", "r": "chief-0", "n": n, "s": "usage", "m": "{}"} for n in aside]
    (home / "logs/chaos/a.usage.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    (home / "server.log").write_text(log)
    return check(Sqlite(home), home, journals, witness, hits={})


def test_what_is_right_is_found_right(tmp_path: Path) -> None:
    assert findings(tmp_path) == Findings(acknowledged=1)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM jobs",
        "UPDATE jobs SET state = 'FAILED'",
        "UPDATE jobs SET state = 'CANCELLED'",
        "UPDATE jobs SET state = 'QUEUED'",
    ],
)
def test_a_job_that_is_gone_or_ended_wrongly_is_lost(tmp_path: Path, sql: str) -> None:
    assert len(findings(tmp_path, sql=sql).lost) == 1


def test_a_success_without_an_end_of_its_program_is_lost(tmp_path: Path) -> None:
    assert len(findings(tmp_path, run="start 1 0 77 5.0\n").lost) == 1


def test_a_cancel_that_was_asked_for_may_come(tmp_path: Path) -> None:
    journal = ({"what": "cancels", "job": "a"},)
    assert not findings(tmp_path, sql="UPDATE jobs SET state = 'CANCELLED'", journal=journal).lost


@pytest.mark.parametrize(
    "run",
    [
        "start 1 0 77 5.0\nstart 1 0 78 5.5\nend 1 0 78 6.0\n",
        "start 1 0 77 5.0\noverlap 1 0 77 5.0\nend 1 0 77 6.0\n",
        "start 1 0 77 5.0\nstart 2 1 78 5.5\nend 2 1 78 6.0\n",
    ],
)
def test_a_second_run_one_beside_another_and_one_that_nobody_ordered_are_twice(tmp_path: Path, run: str) -> None:
    assert len(findings(tmp_path, run=run).twice) == 1


def test_what_is_told_beside_the_output_is_counted_with_it(tmp_path: Path) -> None:
    assert not findings(tmp_path / "all", numbers=(2, 5), aside=(1, 3, 4, 6)).lines
    assert findings(tmp_path / "missing", numbers=(2, 5), aside=(1, 4)).lines


@pytest.mark.parametrize(
    ("lines", "numbers"),
    [
        (LINES, (1, 3)),
        (LINES, (1, 1)),
        ([LINES[1], LINES[0]], (1, 2)),
        (LINES[:1], (1,)),
        ([LINES[0], LINES[0]], (1, 2)),
    ],
)
def test_a_line_that_is_missing_doubled_or_misplaced_is_found(
    tmp_path: Path, lines: list[str], numbers: tuple[int, ...]
) -> None:
    assert findings(tmp_path, lines=lines, numbers=numbers).lines


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM story WHERE n = 1",
        "INSERT INTO story VALUES (4, 4.0)",
        "UPDATE story SET at = 0.5 WHERE n = 2",
        "INSERT INTO holdings VALUES (1)",
        "INSERT INTO attempts VALUES ('chaos/b.1', 1)",
        "UPDATE jobs SET live = 1",
    ],
)
def test_what_is_left_in_the_database_is_found(tmp_path: Path, sql: str) -> None:
    assert len(findings(tmp_path, sql=sql).others) == 1


def test_a_traceback_and_what_a_client_was_told_wrongly_are_found(tmp_path: Path) -> None:
    journal = ({"what": "wrong", "job": "a", "text": "StokerError: an unexpected error"},)
    found = findings(tmp_path, log="Traceback (most recent call last):\n  …\n", journal=journal)
    assert len(found.others) == 2
