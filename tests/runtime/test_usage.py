"""What a replica's processes use is told as speeds, now and then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.runtime.lines import Log
from stoker.runtime.usage import LONGEST_SECONDS, SHORTEST_SECONDS, STREAM, Usage, Used, used_by


class Hand:
    """Processes whose use is written by hand."""

    def __init__(self, folder: Path) -> None:
        self.kept = folder / "log.jsonl"
        self.now = 100.0
        self.used = Used(0.0, 1 << 20, 0, 0, 2)
        self.log = Log(str(self.kept), None)
        self.usage = Usage(self.log, clock=lambda: self.now, wall=lambda: 5000.0 + self.now, used=lambda: self.used)

    def told(self) -> list[dict[str, Any]]:
        self.usage.pass_on()
        records = [json.loads(line) for line in self.kept.read_text().splitlines()] if self.kept.exists() else []
        assert all(record["s"] == STREAM for record in records)
        return [json.loads(record["m"]) for record in records]


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    made = Hand(tmp_path)
    yield made
    made.log.drain(1.0)


def test_counts_become_speeds(hand: Hand) -> None:
    assert hand.told() == [], "one look tells no speed"
    hand.now += SHORTEST_SECONDS
    hand.used = Used(5.0, 3 << 20, 4000, 200, 3)
    (told,) = hand.told()
    assert told == {
        "t": 5102.0,
        "seconds": 2.0,
        "cpus": 2.5,
        "of_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": 3 << 20,
        "read_bytes_per_second": 2000,
        "written_bytes_per_second": 100,
        "processes": 3,
    }


def test_counts_that_fall_are_no_speed(hand: Hand) -> None:
    hand.used = Used(50.0, 1, 9000, 9000, 1)
    hand.told()
    hand.now += 10.0
    hand.used = Used(1.0, 1, 0, 0, 1)  # another program, started again in place
    assert [(told["cpus"], told["read_bytes_per_second"]) for told in hand.told()] == [(0.0, 0)]


def test_nothing_is_told_of_no_processes_nor_too_often(hand: Hand) -> None:
    hand.told()
    hand.now += SHORTEST_SECONDS / 2
    assert hand.told() == []
    hand.now += SHORTEST_SECONDS
    hand.used = Used(0.0, 0, 0, 0, 0)
    assert hand.told() == []


def test_the_longer_it_runs_the_less_often_it_is_told(hand: Hand) -> None:
    for _ in range(24 * 3600):
        hand.now += 1.0
        hand.usage.pass_on()
    told = hand.told()
    assert told[-1]["seconds"] == LONGEST_SECONDS and 1400 < len(told) < 2000
    assert sum(line["seconds"] for line in told) == pytest.approx(24 * 3600, abs=2 * LONGEST_SECONDS)


def test_a_real_process_and_its_dead_child() -> None:
    burn = "sum(range(20_000_000))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{burn}']); {burn}; print('', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found, none = used_by([process.pid]), used_by([])
        process.communicate(b"\n", timeout=60)
    ended = used_by([process.pid])
    assert found.processes == 1 and found.memory_bytes > 1 << 20
    assert found.cpu_seconds - none.cpu_seconds > 0.1
    assert ended.processes == 0 and ended.cpu_seconds == pytest.approx(found.cpu_seconds, abs=0.2), "it was waited for"
