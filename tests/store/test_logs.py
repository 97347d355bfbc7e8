"""Logs: in order, each line once, whole after a crash."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from stoker.store.logs import Logs


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
