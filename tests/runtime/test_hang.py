"""Whether a program stands still: by its output, its beat and its progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from stoker.runtime.hang import LEAST_FIRST_SECONDS, Watch
from stoker.runtime.lines import Log
from tests.conftest import wait_until

SECONDS = 100.0
LOOK = 5.0  # a twentieth of it


class Make(Protocol):
    """Makes a hand on some processes."""

    def __call__(self, processes: list[int], *, speaks: bool = True) -> Hand:
        """One more."""


class Hand:
    """A watch on some processes, and its clock."""

    def __init__(self, folder: Path, processes: list[int], *, speaks: bool = True) -> None:
        self.now = 1000.0
        self.looks = 0
        self._ids = processes
        self.log = Log(str(folder / "log.jsonl"), None)
        self.beat = folder / "beat"
        if speaks:
            self.log.write("out", "a first line")
        self.watch = Watch(SECONDS, self.log, str(self.beat), self._processes, clock=lambda: self.now)

    def _processes(self) -> list[int]:
        self.looks += 1
        return self._ids

    def passes(self, seconds: float) -> list[bool]:
        """What it tells while time goes on, looked at as often as it wants."""
        told = []
        for _ in range(round(seconds / LOOK)):
            self.now += LOOK
            found = self.watch.look()
            told += [] if found is None else [found]
        return told


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a hand; its log is closed afterwards."""
    made: list[Hand] = []

    def one(processes: list[int], *, speaks: bool = True) -> Hand:
        made.append(Hand(tmp_path, processes, speaks=speaks))
        return made[-1]

    yield one
    for hand in made:
        hand.log.drain(0)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps."""
    process = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(1000)"], stdout=-1)
    assert process.stdout is not None and process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_one_that_sleeps_is_quiet_after_its_time_and_that_is_told_once(
    make: Make, sleeper: subprocess.Popen[bytes]
) -> None:
    hand = make([sleeper.pid])
    assert hand.passes(SECONDS - LOOK) == []
    assert hand.passes(SECONDS) == [True]
    assert "no output, no beat and no progress for" in hand.watch.evidence()
    wait_until(lambda: "sleeping" in hand.watch.describe()[0])  # it may still be on its way to sleep
    assert f"process {sleeper.pid}" in hand.watch.describe()[0]


@pytest.mark.parametrize("signal_of_life", ["line", "beat"])
def test_a_line_or_a_beat_starts_the_time_anew_and_ends_the_quiet(
    make: Make, sleeper: subprocess.Popen[bytes], signal_of_life: str
) -> None:
    hand = make([sleeper.pid])

    def show() -> None:
        if signal_of_life == "line":
            hand.log.write("err", "still here")
        else:
            hand.beat.touch()

    assert hand.passes(SECONDS - LOOK) == []
    show()
    assert hand.passes(SECONDS - LOOK) == []
    assert hand.passes(2 * LOOK) == [True]
    os.utime(hand.beat) if hand.beat.exists() else show()
    assert hand.passes(LOOK) == [False]


def test_the_supervisors_own_lines_are_no_output(make: Make, sleeper: subprocess.Popen[bytes]) -> None:
    hand = make([sleeper.pid])
    assert hand.passes(SECONDS) == [True]
    hand.log.write("service", "it seems to hang")
    hand.watch.heard_ourselves()
    assert hand.passes(SECONDS) == []


def test_one_that_works_is_not_quiet(make: Make) -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        hand = make([process.pid])
        hand.passes(SECONDS - LOOK)
        ticks = cpu_ticks(process.pid)
        wait_until(lambda: cpu_ticks(process.pid) > ticks + 20)
        assert hand.passes(SECONDS - LOOK) == []
    finally:
        process.kill()
        process.wait()


def cpu_ticks(pid: int) -> int:
    """What a process has used of the processor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_one_that_reads_and_writes_is_not_quiet(make: Make) -> None:
    code = "import sys\nfor line in sys.stdin: open('/dev/null', 'wb', 0).write(bytes(10**6)); print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        hand = make([process.pid])
        hand.passes(SECONDS - LOOK)
        print(file=process.stdin, flush=True)
        process.stdout.readline()
        assert hand.passes(SECONDS - LOOK) == []


def test_time_in_which_we_stood_still_ourselves_does_not_count(make: Make, sleeper: subprocess.Popen[bytes]) -> None:
    hand = make([sleeper.pid])
    hand.passes(LOOK)
    hand.now += 10 * SECONDS
    assert hand.passes(SECONDS - LOOK) == []
    assert hand.passes(2 * LOOK) == [True]


def test_a_program_that_somebody_has_stopped_does_not_hang(make: Make, sleeper: subprocess.Popen[bytes]) -> None:
    hand = make([sleeper.pid])
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert hand.passes(3 * SECONDS) == []
    sleeper.send_signal(signal.SIGCONT)
    wait_until(lambda: Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
    assert hand.passes(2 * SECONDS) == [True]


def test_before_its_first_line_a_program_may_be_silent_for_long(make: Make, sleeper: subprocess.Popen[bytes]) -> None:
    hand = make([sleeper.pid], speaks=False)
    assert hand.passes(LEAST_FIRST_SECONDS - LOOK) == []
    assert hand.passes(LOOK) == [True]


def test_asked_too_soon_it_does_not_look(make: Make) -> None:
    hand = make([])
    for _ in range(1000):
        hand.now += 0.2
        hand.watch.look()
    assert hand.looks == pytest.approx(200 / LOOK, abs=2)
