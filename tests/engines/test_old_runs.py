"""The folders of ended attempts go when they are old, and no others."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from stoker.engines.local.old_runs import OldRuns, attempts_in

DAY = 86400.0


def a_run(runs: Path, attempt: str, at: float) -> Path:
    """The folder of a replica in which something happened last at a time."""
    folder = runs / attempt / "chief-0"
    (folder / "work").mkdir(parents=True)
    for name in ("status.json", "log.jsonl", "lock", "work/result"):
        (folder / name).touch()
    for path in (*folder.iterdir(), folder, folder.parent):
        os.utime(path, (at, at))
    return folder


def test_what_is_old_goes_and_what_is_new_stays(tmp_path: Path) -> None:
    a_run(tmp_path, "p/old.1", at=0.0)
    a_run(tmp_path, "q/old.1", at=0.0)
    a_run(tmp_path, "p/new.1", at=10 * DAY)
    assert OldRuns(tmp_path, 14.0).prune(now=15 * DAY) == ["p/old.1", "q/old.1"]
    assert list(attempts_in(tmp_path)) == ["p/new.1"]
    assert not (tmp_path / "q").exists(), "a project's folder goes with its last attempt"


def test_a_line_written_lately_keeps_the_folder(tmp_path: Path) -> None:
    os.utime(a_run(tmp_path, "p/j.1", at=0.0) / "log.jsonl", (15 * DAY, 15 * DAY))
    assert OldRuns(tmp_path, 14.0).prune(now=16 * DAY) == []


def test_a_living_supervisor_keeps_its_folder(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "p/j.1", at=0.0)
    with open(folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert OldRuns(tmp_path, 14.0).prune(now=99 * DAY) == []
    assert OldRuns(tmp_path, 14.0).prune(now=99 * DAY) == ["p/j.1"]


def test_folders_however_deep_keep_no_other_from_going(tmp_path: Path) -> None:
    here = os.open(a_run(tmp_path, "p/deep.1", at=0.0) / "work", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("x", dir_fd=here)
        below = os.open("x", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    for path in (tmp_path / "p/deep.1", *(tmp_path / "p/deep.1/chief-0").iterdir(), tmp_path / "p/deep.1/chief-0"):
        os.utime(path, (0.0, 0.0))
    a_run(tmp_path, "q/old.1", at=0.0)
    assert OldRuns(tmp_path, 14.0).prune(now=15 * DAY) == ["p/deep.1", "q/old.1"]
    assert list(attempts_in(tmp_path)) == []


def test_no_runs_yet(tmp_path: Path) -> None:
    assert OldRuns(tmp_path / "runs", 14.0).prune(now=0.0) == []
