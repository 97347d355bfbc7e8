"""What is kept of a flood, by a clock that stands still until it is moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.runtime.lines import Log
from stoker.runtime.output_limit import BURST_SECONDS, NOTE_SECONDS, RECORD_BYTES, Meter, Output, OutputLimit

MB = 1_000_000
CHUNK = 1 << 16


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class House:
    """One stream, its log, and what was written there."""

    def __init__(self, folder: Path, most_mb: float = 0.0, mb_per_second: float = 0.0) -> None:
        self.clock = Clock()
        self.log = Log(str(folder / "log.jsonl"), None)
        self.limit = OutputLimit(most_mb * MB, mb_per_second * MB, self.clock)
        self.out = self.stream("out")
        self._path = folder / "log.jsonl"

    def stream(self, name: str) -> Output:
        return Output(name, self.log, self.limit)

    def feed(self, data: bytes, size: int = CHUNK) -> None:
        for at in range(0, len(data), size):
            self.out.feed(data[at : at + size])

    def lines(self, stream: str = "out") -> list[str]:
        found = [json.loads(line) for line in self._path.read_text().splitlines()]
        assert [line["n"] for line in found] == list(range(1, len(found) + 1)), "in order, and none twice"
        return [line["m"] for line in found if line["s"] == stream]

    @property
    def size(self) -> int:
        return self._path.stat().st_size


Build = Callable[..., House]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes the house of a test; its log is closed when the test is over."""
    built: list[House] = []

    def make(**limits: float) -> House:
        built.append(House(tmp_path, **limits))
        return built[-1]

    yield make
    for house in built:
        house.log.drain(1.0)


def numbered(count: int, first: int = 0) -> bytes:
    return b"".join(b"line %06d\n" % n for n in range(first, first + count))


def lost(note: str) -> int:
    """How many lines a note says were left out."""
    return int(note.split()[0].replace(",", ""))


def test_a_meter_lets_a_burst_through_and_then_so_much_a_second() -> None:
    clock = Clock()
    meter = Meter(10.0, clock)
    assert meter.take(int(10 * BURST_SECONDS)) and not meter.take(1)
    clock.now += 1.0
    assert meter.take(10) and not meter.take(1) and not meter.is_calm()
    clock.now += BURST_SECONDS / 2
    assert meter.is_calm()
    assert Meter(0.0, clock).take(1 << 40), "0 is no limit"


def test_without_limits_everything_is_kept(build: Build) -> None:
    house = build()
    house.feed(numbered(50_000))
    house.out.end()
    assert len(house.lines()) == 50_000 and not house.lines("service")


def test_of_a_flood_the_first_and_the_last_part_are_kept_and_what_is_left_out_is_counted(build: Build) -> None:
    house = build(mb_per_second=0.5)
    house.feed(numbered(200_000))
    house.clock.now += BURST_SECONDS  # it is quiet for a while
    house.out.look()
    house.feed(b"the last line\n")
    house.out.end()
    lines, (cut, note) = house.lines(), house.lines("service")
    assert "stdout is cut here (log_mb_per_second: 0.5 MB a second)" in cut
    assert lines[0] == "line 000000" and lines[-2:] == ["line 199999", "the last line"]
    assert lost(note) == 200_001 - len(lines) and "the last part follows" in note
    gap = next(n for n, line in enumerate(lines) if line != f"line {n:06}")
    assert lines[gap:-1] == [f"line {n:06}" for n in range(200_001 - len(lines) + gap, 200_000)], (
        "one gap, and only one"
    )
    assert len(lines) * (RECORD_BYTES + 12) < 0.5 * MB * BURST_SECONDS + 3 * MB


def test_what_fits_into_the_ring_is_late_and_not_lost(build: Build) -> None:
    house = build(mb_per_second=0.1)
    house.feed(numbered(4000), size=999)
    assert house.out.is_cut and len(house.lines()) < 4000
    house.clock.now += BURST_SECONDS
    house.out.look()
    assert not house.out.is_cut and len(house.lines()) == 4000
    assert [line for line in house.lines("service") if "left out here" in line] == []


def test_a_flood_that_goes_on_is_told_of_now_and_then(build: Build) -> None:
    house = build(mb_per_second=0.1)
    for _ in range(5):
        house.feed(numbered(50_000))
        house.clock.now += 0.1
        house.out.look()
    assert len(house.lines("service")) == 1
    for _ in range(3):
        house.clock.now += NOTE_SECONDS - 1.0
        house.feed(numbered(50_000))  # as much as was refilled: it is not calm
        house.out.look()
        house.clock.now += 1.0
        house.feed(numbered(50_000))
        house.out.look()
    notes = house.lines("service")[1:]
    assert 3 <= len(notes) <= 4
    assert all("left out so far" in note and note.endswith("the last: line 049999") for note in notes)
    assert [lost(note) for note in notes] == sorted(lost(note) for note in notes)


def test_a_budget_that_is_used_up_cuts_to_the_end_whatever_the_pace(build: Build) -> None:
    house = build(most_mb=2)
    for n in range(30_000):
        house.out.feed(b"line %06d\n" % n)
        house.clock.now += 1.0
        house.out.look()
    house.out.end()
    lines, notes = house.lines(), house.lines("service")
    assert "log_mb: 2 MB of a replica" in notes[0] and lines[-1] == "line 029999"
    assert lost(notes[-1]) == 30_000 - len(lines) > 0
    assert house.size < 2.2 * MB


def test_a_budget_is_of_both_streams_and_of_every_run(build: Build) -> None:
    house = build(most_mb=1)
    for run in range(5):
        for name in ("out", "err"):
            stream = house.stream(name)
            for _ in range(20):
                stream.feed(numbered(5000))
            stream.feed(b"end of run %d\n" % run)
            stream.end()
    assert house.lines()[-1] == house.lines("err")[-1] == "end of run 4"
    assert house.size < 1 * MB + 10 * 0.3 * MB


def test_a_flood_of_one_stream_cuts_no_other(build: Build) -> None:
    house = build(mb_per_second=0.1)
    errors = house.stream("err")
    house.feed(numbered(50_000))
    errors.feed(b"Traceback\n")
    house.feed(numbered(50_000))
    assert house.lines("err") == ["Traceback"] and list(house.log.last_errors) == ["Traceback"]


def test_the_last_words_of_a_flood_are_there_for_who_looks_why_it_failed(build: Build) -> None:
    house = build(mb_per_second=0.1)
    house.feed(numbered(100_000) + b"MemoryError: no more")
    house.out.end()
    assert list(house.log.last_output)[-2:] == ["line 099999", "MemoryError: no more"]


def test_who_floods_is_heard(build: Build) -> None:
    house = build(mb_per_second=0.1)
    house.feed(numbered(100_000))
    heard = house.log.heard
    house.out.feed(b"x")
    assert house.log.heard == heard + 1


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_of_a_line_without_end_the_last_part_is_kept(build: Build, end: bytes) -> None:
    house = build(mb_per_second=0.1)
    house.feed(b"x" * 10 * MB + b"the end" + end)
    house.out.end()
    lines = house.lines()
    assert lines[-1].endswith("xthe end") and sum(map(len, lines)) < 1 * MB
    assert "(9." in house.lines("service")[-1]


def test_lines_of_ten_megabytes_are_bounded(build: Build) -> None:
    house = build(most_mb=5, mb_per_second=1)
    for n in range(10):
        house.feed(b"%d " % n + b"\xff" * 10 * MB + b"\n")
        house.clock.now += 1.0
        house.out.look()
    house.out.end()
    assert house.size < 9 * MB, "also where JSON writes a byte with six"


def test_a_flood_of_blank_lines_is_a_flood(build: Build) -> None:
    house = build(mb_per_second=0.1)
    house.feed(b"\n" * MB + b"last\n")
    assert house.out.is_cut
    house.out.end()
    assert house.lines() == ["last"]


def test_a_progress_bar_is_no_flood(build: Build) -> None:
    house = build(most_mb=1, mb_per_second=0.1)
    for n in range(20_000):
        house.out.feed(b"\r%5d/20000 [################                ]" % n)
        house.clock.now += 0.1
    house.out.end()
    assert house.lines() == ["19999/20000 [################                ]"] and not house.lines("service")
