"""What is beyond what is kept of a job: acknowledged, counted, and its last part kept."""

from __future__ import annotations

from pathlib import Path

from stoker.clock import ManualClock
from stoker.store.log_limit import LONGEST_TEXT_CHARACTERS, NOTE_SECONDS, TAIL_BYTES
from stoker.store.logs import STEPS, Logs

MOST = 100_000


def lines(first: int, count: int, stream: str = "out") -> list[dict[str, object]]:
    return [{"n": n, "t": float(n), "s": stream, "m": f"line {n:06} " + "x" * 80} for n in range(first, first + count)]


def kept(logs: Logs, replica: str = "chief-0") -> list[tuple[int, str, str]]:
    found = [(line.n, line.stream, line.text) for line in logs.read("p/j") if line.replica == replica]
    assert [n for n, _, _ in found] == sorted({n for n, _, _ in found}), "numbers grow"
    return found


def notes(logs: Logs) -> list[str]:
    return [text for _, stream, text in kept(logs) if stream == "service"]


def test_the_first_and_the_last_part_are_kept_and_all_is_acknowledged(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(0.0), most_bytes=MOST)
    for first in range(1, 20_001, 500):
        assert logs.append("p/j.1", "chief-0", lines(first, 500)) == first + 499
        assert logs.last_number("p/j.1", "chief-0") == first + 499
    assert logs.is_full("p/j")
    logs.end("p/j.1", "chief-0")
    found = kept(logs)
    assert found[0][2].startswith("line 000001 ") and found[-1][2].startswith("line 020000 ")
    cut, note = notes(logs)
    assert "the log of this job is full (job_log_mb: 0.1 MB)" in cut
    left_out = int(note.split()[0].replace(",", ""))
    assert left_out == 20_000 - (len(found) - 2) and "the last part follows" in note
    assert (tmp_path / "p/j.jsonl").stat().st_size < MOST + 2 * 100_000 + TAIL_BYTES
    logs.end("p/j.1", "chief-0")
    assert len(kept(logs)) == len(found), "said once"


def test_whoever_comes_after_has_its_last_part_too(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(0.0), most_bytes=MOST)
    logs.append("p/j.1", "chief-0", lines(1, 2000))
    logs.append("p/j.2", "worker-0", lines(1, 3))
    assert [n for n, _, _ in kept(logs, "worker-0")] == [1], "the note stands in the place of the first"
    logs.end("p/j.2", "worker-0")
    assert [n for n, _, _ in kept(logs, "worker-0")] == [1, 2, 3]


def test_who_posts_for_ever_leaves_a_note_a_minute(tmp_path: Path) -> None:
    clock = ManualClock(0.0)
    logs = Logs(tmp_path, clock, most_bytes=MOST)
    logs.append("p/j.1", "chief-0", lines(1, 2000))
    for n in range(2, 302):
        logs.append("p/j.1", "chief-0", lines(1000 * n, 1000))
        clock.advance(1.0)
    assert len(notes(logs)) == 1 + int(299 // NOTE_SECONDS)
    assert "lines" in notes(logs)[-1] and "so far" in notes(logs)[-1]


def test_after_a_restart_the_last_note_tells_how_far_it_was(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(0.0), most_bytes=MOST)
    for first in (1, 2001):
        logs.append("p/j.1", "chief-0", lines(first, 2000))
    logs.end("p/j.1", "chief-0")
    assert Logs(tmp_path).last_number("p/j.1", "chief-0") == 4000


def test_steps_are_not_cut_by_a_flood_of_output_nor_without_an_end(tmp_path: Path) -> None:
    logs = Logs(tmp_path, ManualClock(0.0), most_bytes=MOST)
    logs.append("p/j.1", "chief-0", lines(1, 2000))
    logs.append("p/j.1", "chief-0", lines(2001, 10, STEPS))
    assert len([*logs.aside("p/j", STEPS)]) == 10
    for first in range(3000, 10_000, 1000):
        assert logs.append("p/j.1", "chief-0", lines(first, 1000, STEPS)) == first + 999
    assert {line.stream for line in logs.aside("p/j", STEPS)} == {STEPS}
    assert (tmp_path / "p/j.steps.jsonl").stat().st_size < 2 * MOST + 100_000


def test_a_text_that_no_supervisor_would_ship_is_cut(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.append("p/j.1", "chief-0", [{"n": 1, "t": 1.0, "s": "out", "m": "x" * 1_000_000}])
    [(_, _, text)] = kept(logs)
    assert text.startswith("x" * LONGEST_TEXT_CHARACTERS + "… (934,464 characters more") and len(text) < 70_000


def test_what_was_shipped_once_and_is_gone_is_missed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.append("p/j.1", "chief-0", lines(1, 10))
    assert logs.lost_after("p/j.1", "chief-0", 10) is None
    (tmp_path / "p/j.jsonl").unlink()
    assert logs.lost_after("p/j.1", "chief-0", 10) == 0
    full = Logs(tmp_path, most_bytes=1)
    full.append("p/j.1", "chief-0", lines(1, 10))
    assert full.lost_after("p/j.1", "chief-0", 20) is None, "of what is not kept nothing is missed"
