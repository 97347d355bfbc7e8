"""The benchmarks' harness: a part runs once and shows its rows. What it measures is nobody's test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import Row, table


def test_a_part_runs_once_and_shows_its_rows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "cli", "--runs=1", f"--json={tmp_path / 'rows.json'}"]
    ended = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "WHAT" in ended.stdout and "stoker --version" in ended.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert rows and all(len(row["samples"]) == 1 for row in rows)


@pytest.mark.parametrize(
    ("measured", "more_is_better", "verdict"),
    [(50.0, False, "BEST"), (200.0, False, "OK"), (400.0, False, "OVER"), (50.0, True, "OVER"), (400.0, True, "OK")],
)
def test_a_row_is_held_against_its_budget(measured: float, more_is_better: bool, verdict: str) -> None:
    moonshot = 2000.0 if more_is_better else 60.0
    row = Row(what="it", unit="ms", samples=[measured], budget=300, moonshot=moonshot, more_is_better=more_is_better)
    assert row.verdict == verdict
    assert table([row]).splitlines()[1].endswith(verdict)


def test_what_could_not_be_measured_says_why() -> None:
    assert "not installed" in table([Row(what="Ray", note="not installed: pip install stoker[bench]")])
