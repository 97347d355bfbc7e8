"""What was sampled is found again: at once, after hours, after a kill, on a full disk; and it is never too much."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stoker.clock import ManualClock
from stoker.sampling.history import HOUR, History, Keep
from stoker.sampling.series import GREATEST, MEAN

COUNTERS = frozenset({"energy_joules"})
BEGAN = 1_800_000_000.0 - 1_800_000_000.0 % HOUR


@pytest.fixture
def clock() -> ManualClock:
    made = ManualClock()
    made.advance(BEGAN - made.now())
    return made


@pytest.fixture
def history(tmp_path: Path, clock: ManualClock) -> History:
    return History(tmp_path / "samples.db", COUNTERS, clock=clock.now)


def feed(history: History, clock: ManualClock, seconds: int, every: int = 1, gpus: tuple[str, ...] = ("G0",)) -> None:
    """A GPU whose use counts from 0 to 99 and begins again, by the second."""
    for _ in range(0, seconds, every):
        busy = (clock.now() - BEGAN) % 100
        values = {"utilization_percent": busy, "energy_joules": 250.0 * (clock.now() - BEGAN)}
        history.add("n1", clock.now(), {gpu: values for gpu in gpus} | {"": {"cpu_percent": busy / 2}})
        clock.advance(every)


def rows(path: Path, tier: int) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM blocks WHERE tier = ?", [tier]).fetchone()[0])


def test_the_last_minutes_are_there_second_by_second(history: History, clock: ManualClock) -> None:
    feed(history, clock, 150)
    found = history.points("n1", "G0", clock.now() - 100, clock.now())
    assert found.seconds == 1.0 and found.names == ("utilization_percent", "energy_joules_per_second")
    assert found.table[0, :, MEAN].tolist() == [float((50 + n) % 100) for n in range(100)]
    assert found.table[1, 0, MEAN] == 250, "a counter is told as its speed"
    assert history.points("n1", "", clock.now() - 9, clock.now(), names=["cpu_percent"]).table[0, -1, MEAN] == 24.5
    newest = history.newest("n1", "G0")
    assert newest is not None and newest[0] == clock.now() - 1
    assert history.newest("n2", "G0") is None


def test_what_is_older_is_there_in_points_of_ten_seconds_and_of_a_minute(
    history: History, clock: ManualClock, tmp_path: Path
) -> None:
    feed(history, clock, int(8 * HOUR), every=10)
    history.tidy()
    assert rows(tmp_path / "samples.db", 60) == 2 * 7 or rows(tmp_path / "samples.db", 60) == 2 * 8
    found = history.points("n1", "G0", BEGAN, BEGAN + 1200)
    assert found.seconds == 10.0 and found.table[0, :10, MEAN].tolist() == [10.0 * n for n in range(10)]
    day = history.points("n1", "G0", BEGAN, clock.now(), count=480)
    assert day.seconds == 60.0 and not np.isnan(day.table[0, :, MEAN]).any(), "also what no hour was made of yet"
    assert day.table[0, :, GREATEST].max() == 90 and day.table[0, 0, MEAN] == 25
    assert history.points("n1", "G0", BEGAN, clock.now(), count=8).count == 8


def test_one_that_was_killed_has_lost_the_last_minute_at_most(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from stoker.sampling.history import History
history = History(Path(sys.argv[1]), frozenset())
for second in range(130):
    history.add("n", {BEGAN} + second, {{"": {{"load": float(second)}}}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "samples.db"
    ended = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert ended.returncode == -signal.SIGKILL
    found = History(path, frozenset(), clock=lambda: BEGAN + 5000).points("n", "", BEGAN, BEGAN + 130)
    assert found.table[0, :12, MEAN].tolist() == [4.5 + 10 * n for n in range(12)]


def test_what_has_come_in_is_written_at_the_end(tmp_path: Path, clock: ManualClock) -> None:
    history = History(tmp_path / "samples.db", COUNTERS, clock=clock.now)
    feed(history, clock, 20)
    history.end_minutes()
    again = History(tmp_path / "samples.db", COUNTERS, clock=clock.now)
    assert again.points("n1", "G0", BEGAN, BEGAN + 20).table[0, :, MEAN].tolist() == [4.5, 14.5]


def test_what_is_too_old_goes(tmp_path: Path, clock: ManualClock) -> None:
    history = History(tmp_path / "s.db", COUNTERS, Keep(fine_days=1, coarse_days=3), clock=clock.now)
    feed(history, clock, int(2 * HOUR), every=30)
    history.tidy()
    clock.advance(2 * 86400)
    history.tidy()
    assert rows(tmp_path / "s.db", 10) == 0 and rows(tmp_path / "s.db", 60) > 0
    assert history.points("n1", "G0", BEGAN, BEGAN + HOUR).seconds == 60.0
    clock.advance(2 * 86400)
    history.tidy()
    assert rows(tmp_path / "s.db", 60) == 0


def test_what_is_too_much_goes_the_oldest_first(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "s.db"
    history = History(path, COUNTERS, Keep(most_bytes=400_000), clock=clock.now)
    for _ in range(4):
        feed(history, clock, int(HOUR), every=30, gpus=tuple(f"G{n}" for n in range(10)))
        history.tidy()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        first = db.execute("SELECT min(start) FROM blocks WHERE tier = 10").fetchone()[0]
    assert path.stat().st_size < 600_000 and first > BEGAN, "bounded"
    assert not np.isnan(history.points("n1", "G3", clock.now() - 600, clock.now(), count=10).table[0, :, MEAN]).all()


def test_samples_out_of_order_and_clocks_that_jump(history: History, clock: ManualClock) -> None:
    feed(history, clock, 65)
    history.add("n1", clock.now() - 10, {"G0": {"utilization_percent": 7.0}})
    assert history.left_out == 1, "its minute was written"
    history.add("n1", clock.now() - 4000, {"G0": {"utilization_percent": 8.0}})  # the clock was set back
    history.add("n1", clock.now() - 3939, {"G0": {"utilization_percent": 9.0}})
    history.add("n1", clock.now() + 9000, {"G0": {"utilization_percent": 1.0}})  # and forward
    assert history.left_out == 1
    found = history.points("n1", "G0", BEGAN - 7200, BEGAN, count=720)
    assert sorted(x for x in found.table[0, :, MEAN].tolist() if x == x) == [8.0, 9.0]


def test_a_minute_that_is_written_stays_when_the_clock_was_set_back(
    history: History, clock: ManualClock, tmp_path: Path
) -> None:
    feed(history, clock, 190)
    for second in range(70):
        history.add("n1", BEGAN + second, {"G0": {"utilization_percent": 99.0}})
    kept = History(tmp_path / "samples.db", COUNTERS, clock=clock.now)
    assert kept.points("n1", "G0", BEGAN, BEGAN + 60, count=6).table[0, 0, MEAN] == 4.5


def test_a_flood_is_bounded(history: History) -> None:
    for n in range(5000):
        history.add("n1", BEGAN + n / 200, {"G0": {"utilization_percent": 1.0}})
    assert history.left_out == 5000 - 600


def test_a_disk_that_refuses_is_told_and_loses_nothing_of_the_last_minutes(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "s.db"
    history = History(path, COUNTERS, clock=clock.now)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE blocks")
    feed(history, clock, 130)
    assert "samples cannot be kept" in history.problem()
    assert history.points("n1", "G0", clock.now() - 100, clock.now()).table[0, 0, MEAN] == 30
    history.tidy()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE blocks (tier, node, source, start, body, PRIMARY KEY (tier, node, source, start))"
        )
    feed(history, clock, 60)
    assert history.problem() == ""


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    History(tmp_path / "s.db", COUNTERS)
    assert os.stat(tmp_path / "s.db").st_mode & 0o077 == 0
