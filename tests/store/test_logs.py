"""Logs: in order, each line once, whole after a crash."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.clock import ManualClock
from stoker.store.log_file import read_lines
from stoker.store.logs import STEPS, Logs

SECOND = 1_000_000


def line(n: int, text: str = "x") -> dict[str, object]:
    return {"n": n, "t": float(n), "s": "out", "m": text}


def read(logs: Logs, offset: int = 0) -> list[tuple[str, int, str]]:
    return [(found.replica, found.n, found.text) for found in logs.read("p/j", offset)]


def test_a_line_shipped_twice_is_kept_once(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    assert logs.append("p/j.1", "chief-0", [line(1), line(2)]) == 2
    assert logs.append("p/j.1", "chief-0", [line(2), line(3)]) == 3
    assert logs.append("p/j.1", "worker-0", [line(1)]) == 1
    assert read(logs) == [("chief-0", 1, "x"), ("chief-0", 2, "x"), ("chief-0", 3, "x"), ("worker-0", 1, "x")]


def test_attempts_count_their_lines_apart(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.append("p/j.1", "chief-0", [line(1)])
    logs.append("p/j.2", "chief-0", [line(1)])
    assert len(read(logs)) == 2


def test_a_reader_goes_on_from_its_offset(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.append("p/j.1", "chief-0", [line(1, "a"), line(2, "b")])
    first = next(iter(logs.read("p/j")))
    assert read(logs, first.offset) == [("chief-0", 2, "b")]


def test_numbers_are_known_after_a_restart(tmp_path: Path) -> None:
    Logs(tmp_path).append("p/j.1", "chief-0", [line(1), line(2)])
    again = Logs(tmp_path)
    assert again.last_number("p/j.1", "chief-0") == 2
    again.append("p/j.1", "chief-0", [line(2), line(3)])
    assert [n for _, n, _ in read(again)] == [1, 2, 3]


def test_a_line_that_a_crash_cut_off_is_taken_again(tmp_path: Path) -> None:
    Logs(tmp_path).append("p/j.1", "chief-0", [line(1)])
    with open(tmp_path / "p" / "j.jsonl", "ab") as file:
        file.write(b'{"a": "p/j.1", "r": "chi')
    again = Logs(tmp_path)
    assert again.append("p/j.1", "chief-0", [line(2)]) == 2
    assert [n for _, n, _ in read(again)] == [1, 2]


def test_of_a_job_without_output_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read(Logs(tmp_path)) == []


def test_odd_text_stays_one_line(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    text = 'quote " backslash \\ newline \n tab \t \x00 ünïcode \u2028'
    logs.append("p/j.1", "chief-0", [line(1, text), line(2)])
    assert [found for _, _, found in read(logs)] == [text, "x"]


def test_what_a_full_disk_cut_off_is_shipped_again_once(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    logs = Logs(tmp_path)
    logs.append("p/j.1", "chief-0", [line(n) for n in range(1, 11)])
    size = (tmp_path / "p/j.jsonl").stat().st_size
    for room in (10, 100, 700):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, before[1]))
        old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            with pytest.raises(OSError):
                logs.append("p/j.1", "chief-0", [line(n) for n in range(11, 31)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, old)
        assert (tmp_path / "p/j.jsonl").stat().st_size == size
    logs.append("p/j.1", "chief-0", [line(n) for n in range(11, 31)])
    assert [n for _, n, _ in read(logs)] == list(range(1, 31))


def test_a_line_that_comes_late_comes_after_what_has_been_told(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    logs = Logs(tmp_path, clock)
    logs.append("p/j.1", "chief-0", [a_line(1, 50.0, "early")])
    assert logs.seal("p/j", 90 * SECOND) == 90 * SECOND
    logs.append("p/j.1", "worker-0", [a_line(1, 60.0, "late"), a_line(2, 95.0, "in time")])
    told = [(line.text, line.moment, line.time) for line in logs.since("p/j", 0)]
    assert told == [
        ("early", 50 * SECOND, 50.0),
        ("late", 90 * SECOND + 1, 60.0),
        ("in time", 95 * SECOND, 95.0),
    ]


def test_what_one_reader_has_been_told_stays_sealed_whatever_the_next_one_asks(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(100.0))
    assert logs.seal("p/j", 90 * SECOND) == 90 * SECOND
    assert logs.seal("p/j", 50 * SECOND) == 50 * SECOND
    logs.append("p/j.1", "chief-0", [a_line(1, 60.0, "late")])
    assert [line.moment for line in logs.since("p/j", 0)] == [90 * SECOND + 1]


def test_nobody_can_be_told_what_is_to_come(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    logs = Logs(tmp_path, clock)
    assert logs.seal("p/j", 500 * SECOND) == 100 * SECOND
    logs.append(
        "p/j.1", "chief-0", [a_line(1, 1e15, "of a clock that runs ahead"), a_line(2, 1e300), a_line(3, -1e300)]
    )
    assert [line.moment - 100 * SECOND for line in logs.since("p/j", 0)] == [1, 2, 3]


def test_lines_of_one_moment_get_moments_of_their_own(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(100.0))
    logs.append("p/j.1", "chief-0", [a_line(n, 7.0) for n in range(1, 5)])
    assert [line.moment - 7 * SECOND for line in logs.since("p/j", 0)] == [0, 1, 2, 3]
    assert [line.n for line in logs.since("p/j", 7 * SECOND + 2)] == [3, 4]
    assert [line.n for line in logs.until("p/j", 7 * SECOND + 1)] == [2, 1]


def test_moments_are_the_same_from_every_block(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(100.0))
    logs.append("p/j.1", "chief-0", [a_line(n, 7.0, "x" * 200) for n in range(1, 3001)])
    for reader in (logs, Logs(tmp_path, ManualClock(100.0))):
        for n in (1, 250, 251, 500, 1500, 2999, 3000):
            moment = 7 * SECOND + n - 1
            for found in (next(reader.since("p/j", moment)), next(reader.until("p/j", moment))):
                assert (found.n, found.moment) == (n, moment)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/io to count what is read")
def test_a_long_log_is_read_from_where_it_matters(tmp_path: Path) -> None:
    """What is wanted of a log of 6 MB is found by reading no more than a block too much."""
    logs = Logs(tmp_path, ManualClock(1e6))
    for first in range(0, 40_000, 500):
        logs.append("p/j.1", "chief-0", [a_line(n + 1, float(n), "x" * 80) for n in range(first, first + 500)])
    for reader in (logs, Logs(tmp_path, ManualClock(1e6))):
        before = read_bytes()
        assert [line.n for line in islice(reader.since("p/j", 39_990 * SECOND), 3)] == [39_991, 39_992, 39_993]
        assert [line.n for line in islice(reader.until("p/j", 39_990 * SECOND), 3)] == [39_991, 39_990, 39_989]
        if reader is logs:  # the other one has to read it all, once
            assert read_bytes() - before < 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/io to count what is read")
def test_newest_first_page_by_page_reads_the_log_about_once(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(1e6))
    for first in range(0, 20_000, 500):
        logs.append("p/j.1", "chief-0", [a_line(n + 1, float(n), "x" * 80) for n in range(first, first + 500)])
    found: list[int] = []
    before = read_bytes()
    while page := list(islice(logs.until("p/j", (20_000 - len(found)) * SECOND - 1), 500)):
        found += [line.n for line in page]
    assert found == list(range(20_000, 0, -1))
    assert read_bytes() - before < 3 * (tmp_path / "p/j.jsonl").stat().st_size


def test_only_the_jobs_last_used_are_remembered(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(1e6), most_remembered=3)
    for round in (1, 2):
        for job in range(10):
            assert logs.append(f"p/j{job}.1", "chief-0", [a_line(round, 1.0), a_line(round, 1.0)]) == round
    assert len(logs._recent) == 3 and len(logs._used) == 3
    assert [line.n for line in logs.read("p/j4")] == [1, 2]


texts = st.text(st.characters(exclude_categories=()), max_size=5) | st.sampled_from(
    ['"}', '\\"}', "\\", '"}\n', "\x00"]
)
shipments = st.lists(
    st.tuples(
        st.sampled_from(["chief-0", "worker-0"]),
        st.lists(st.tuples(st.integers(-3, 30), texts), min_size=1, max_size=4),
        st.none() | st.integers(0, 12),  # what somebody is told up to, before
    ),
    max_size=8,
)


@given(shipments, st.integers(0, 15))
def test_moments_grow_and_stay_whoever_reads(shipments: list[Any], since: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = ManualClock(10.0)
        logs = Logs(Path(folder), clock)
        sent: list[tuple[str, str]] = []
        for number, (replica, parts, seal) in enumerate(shipments):
            told = [] if seal is None else list(logs.since("p/j", 0))
            sealed = 0 if seal is None else logs.seal("p/j", seal * SECOND)
            first = 10 * number + 1
            logs.append("p/j.1", replica, [a_line(first + n, t, text) for n, (t, text) in enumerate(parts)])
            sent += [(replica, text) for _, text in parts]
            now = list(logs.since("p/j", 0))
            assert now[: len(told)] == told or seal is None
            assert all(line.moment > sealed for line in now[len(now) - len(parts) :])
        found = list(logs.since("p/j", 0))
        assert [(line.replica, line.text) for line in found] == sent
        assert all(a.moment < b.moment for a, b in pairwise(found))
        again = Logs(Path(folder), clock)
        for reader in (logs, again):
            assert list(reader.since("p/j", 0)) == found
            assert list(reader.since("p/j", since * SECOND)) == [li for li in found if li.moment >= since * SECOND]
            earlier = [line for line in found if line.moment <= since * SECOND]
            assert list(reader.until("p/j", since * SECOND)) == earlier[::-1]
            for replica in ("chief-0", "worker-0"):
                numbers = [line.n for line in found if line.replica == replica]
                assert reader.last_number("p/j.1", replica) == max(numbers, default=0)


@given(st.integers(0, 200), texts)
def test_wherever_a_crash_cuts_a_line_off_it_is_taken_again(cut: int, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock, path = ManualClock(10.0), Path(folder) / "p/j.jsonl"
        Logs(Path(folder), clock).append("p/j.1", "chief-0", [a_line(1, 1.0), a_line(2, 2.0, text)])
        first = next(iter(Logs(Path(folder), clock).read("p/j"))).offset
        whole = path.read_bytes()
        path.write_bytes(whole[: min(first + cut, len(whole))])
        again = Logs(Path(folder), clock)
        again.append("p/j.1", "chief-0", [a_line(2, 2.0, text), a_line(3, 3.0)])
        assert [(line.n, line.text) for line in again.read("p/j")] == [(1, "x"), (2, text), (3, "x")]


def a_line(n: int, time: float, text: str = "x") -> dict[str, object]:
    return {"n": n, "t": time, "s": "out", "m": text}


def read_bytes() -> int:
    """What this process has read from files so far."""
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found is not None
    return int(found[1])


def test_what_another_server_adds_is_found_and_counted(tmp_path: Path) -> None:
    """One stands by and reads while the other leads and writes; then they change places."""
    leader, other = Logs(tmp_path), Logs(tmp_path, writes=lambda: False)
    leader.append("p/j.1", "chief-0", [line(1), line(2)])
    assert [found.n for found in other.since("p/j", 0)] == [1, 2]
    leader.append("p/j.1", "chief-0", [a_line(n, float(n), "x" * 1000) for n in range(3, 200)])
    assert [found.n for found in other.since("p/j", 150 * SECOND)] == list(range(150, 200))
    assert [found.n for found in islice(other.until("p/j", 180 * SECOND), 2)] == [180, 179]
    assert other.seal("p/j", 10**18) == 199 * SECOND  # what comes is later than the last line, no more is known
    assert other.append("p/j.1", "chief-0", [line(199), line(200)]) == 200
    assert leader.append("p/j.1", "chief-0", [line(200), line(201)]) == 201
    assert [n for _, n, _ in read(other)] == list(range(1, 202))


def test_who_only_reads_leaves_a_line_that_is_being_written(tmp_path: Path) -> None:
    Logs(tmp_path).append("p/j.1", "chief-0", [line(1)])
    path = tmp_path / "p" / "j.jsonl"
    before = path.read_bytes() + b'{"a": "p/j.1", "r": "chi'
    path.write_bytes(before)
    other = Logs(tmp_path, writes=lambda: False)
    assert [found.n for found in other.since("p/j", 0)] == [1]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damaged",
    [
        b"{}",
        b"[]",
        b"null",
        b'"x"',
        b"1",
        b"[" * 100_000,
        b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out"}',
        b'{"n":1,"a":"p/j.1","r":"chief-0","t":"x","s":"out","m":"x"}',
        b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out","m":7}',
        b'{"n":1,"a":1,"r":"chief-0","t":1.5,"s":"out","m":"x"}',
        b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out","m":"x","at":"now"}',
        b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out","m":"x","at":[]},{}',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_none_of_ours_hides_no_other(tmp_path: Path, damaged: bytes) -> None:
    """At level 0 a job can write into the file; found by fuzzing."""
    path, fine = tmp_path / "log", b'{"n":%d,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out","m":"x"}\n'
    path.write_bytes(fine % 1 + damaged + b"\n" + fine % 2)
    found = list(read_lines(path))
    assert [line.n for line in found] == [1, 2] and found[1].offset == path.stat().st_size


def told(n: int) -> dict[str, object]:
    return {**line(n, f"step {n}"), "s": "steps"}


def test_what_programs_tell_of_their_steps_is_kept_beside_their_output(tmp_path: Path) -> None:
    logs, rung = Logs(tmp_path), list[str]()
    logs.listen(rung.append)
    assert logs.append("p/j.1", "chief-0", [line(1), told(2), line(3), told(4)]) == 4
    assert logs.append("p/j.1", "chief-0", [told(4), told(5)]) == 5
    assert [n for _, n, _ in read(logs)] == [1, 3] and rung == ["p/j"], "nobody who follows the output is woken"
    assert [(found.n, found.text) for found in logs.aside("p/j", STEPS)] == [(n, f"step {n}") for n in (2, 4, 5)]
    size = (tmp_path / "p" / "j.steps.jsonl").stat().st_size
    for last_bytes, numbers in ((size * 2, [2, 4, 5]), (size // 2, [5]), (1, [])):
        assert [found.n for found in logs.aside("p/j", STEPS, last_bytes=last_bytes)] == numbers, "whole lines alone"
    assert Logs(tmp_path).last_number("p/j.1", "chief-0") == 5, "another server goes on after it"
    logs.forget("p/j")
    assert list(logs.aside("p/j", STEPS)) == list(logs.aside("p/j", STEPS, last_bytes=9)) == [] and not list(
        (tmp_path / "p").iterdir()
    )
