"""Checkpoints are whole or not there, and the newest whole one is never lost: in a folder, and below a URL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.frameworks.checkpointing.checkpoints import KEEP, MANIFEST, Checkpoints
from stoker.frameworks.checkpointing.interval import FIRST_SECONDS, MOST_SECONDS, Rhythm, seconds_until_save
from stoker.frameworks.checkpointing.parts.part import Write
from stoker.frameworks.checkpointing.remote import StoredCheckpoints, checkpoints_at
from stoker.frameworks.checkpointing.saving import Saving
from stoker.frameworks.messages import Refused

Open = Callable[[Path], Checkpoints]


@pytest.fixture(params=["", "file://"])
def at(request: pytest.FixtureRequest) -> Open:
    """Each time as another process would: a store keeps what it has brought."""
    return lambda folder: checkpoints_at(f"{request.param}{folder}")


def save(checkpoints: Checkpoints, step: int, text: str = "weights", **state: object) -> Path:
    """A checkpoint with one file. Returns where it is."""
    checkpoints.sweep()
    draft = checkpoints.begin(step, f"{os.getpid()}-{time.time_ns()}")
    put(draft, text)
    return Path(checkpoints.commit(draft, step, state).removeprefix("file://"))


def file_of(folder: Path, name: str) -> Path:
    """One of its files: in a store they are in a folder of the very save."""
    (found,) = folder.rglob(name)
    return found


def put(folder: str, text: str) -> None:
    Path(folder, "weights").write_text(text)


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.partition("-")[2]) for path in folder.iterdir() if not path.name.startswith("."))


def test_what_was_saved_is_found(at: Open, tmp_path: Path) -> None:
    assert at(tmp_path / "none").latest() is None
    save(at(tmp_path), 7, "seven", epoch=1)
    found = at(tmp_path).latest()
    assert found is not None and (found.step, found.state) == (7, {"epoch": 1})
    assert Path(found.path("weights")).read_text() == "seven"


def test_so_many_are_kept(at: Open, tmp_path: Path) -> None:
    for step in range(10, 100, 10):
        save(at(tmp_path), step)
    assert steps(tmp_path) == [70, 80, 90] and len(steps(tmp_path)) == KEEP


@pytest.mark.parametrize("name", ["weights", MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_of_a_damaged_one_the_one_before_is_taken(at: Open, tmp_path: Path, name: str, damage: str) -> None:
    save(at(tmp_path), 1)
    path = file_of(save(at(tmp_path), 2), name)
    if damage == "gone":
        path.unlink()
    else:
        text = path.read_text()
        path.write_text(text[:-1] if damage == "cut" else text.replace(text[3], "~"))
    found = at(tmp_path).latest()
    assert found is not None and found.step == 1
    assert at(tmp_path).at(2) is None


def test_one_of_several_files_that_is_damaged_is_enough(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    save(checkpoints, 1)
    draft = checkpoints.begin(2, "draft")
    for name in ("first", "second"):
        Path(draft, name).write_text("weights")
    Path(checkpoints.commit(draft, 2, {}), "second").write_text("weighty")
    assert checkpoints.at(2) is None and checkpoints.at(1) is not None


def test_a_step_that_was_not_whole_is_written_again(at: Open, tmp_path: Path) -> None:
    file_of(save(at(tmp_path), 5), "weights").unlink()
    save(at(tmp_path), 5, "again")
    found = at(tmp_path).latest()
    assert found is not None and Path(found.path("weights")).read_text() == "again"


def test_where_there_is_no_room_the_one_before_is_kept(at: Open, tmp_path: Path) -> None:
    def no_room(folder: str) -> Write:
        put(folder, "half")
        raise OSError(28, "No space left on device")

    save(at(tmp_path), 1)
    saving = Saving(at(tmp_path), 0, 1, "1-0")
    for stage in (no_room, lambda folder: lambda: no_room(folder)()):
        saved = saving.start(2, {}, [stage])
        saving.wait()
        assert saved.has_failed
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"], "nothing else lies there"


def test_whoever_is_killed_while_writing_leaves_the_one_before(at: Open, tmp_path: Path) -> None:
    save(at(tmp_path), 1)
    script = (
        "import os, sys; from stoker.frameworks.checkpointing.remote import checkpoints_at\n"
        "open(checkpoints_at(sys.argv[1]).begin(2, 'x') + '/weights', 'w').write('half'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, at(tmp_path).place]).returncode == -signal.SIGKILL
    found = at(tmp_path).latest()
    assert found is not None and found.step == 1
    save(at(tmp_path), 3)
    assert steps(tmp_path) == [1, 3] and len(os.listdir(tmp_path)) == 2, "its leftovers are swept up"


def test_nothing_in_a_folder_is_our_mistake(at: Open, tmp_path: Path) -> None:
    save(at(tmp_path), 1)
    for step, text in enumerate(
        ["", "[]", "{}", '{"files": 3, "state": {}}', json.dumps({"files": {"../x": 1}})], start=2
    ):
        (tmp_path / f"step-{step:09}").mkdir()
        (tmp_path / f"step-{step:09}" / MANIFEST).write_text(text)
    (tmp_path / "step-x").touch()
    (tmp_path / f"step-{99:09}").touch()
    found = at(tmp_path).latest()
    assert found is not None and found.step == 1


def test_what_counts_is_not_touched_by_another_of_the_same_step(tmp_path: Path) -> None:
    """In a bucket nothing can be renamed: whoever is killed between two files leaves the first one whole."""
    save(checkpoints_at(f"file://{tmp_path}"), 5, "first")
    again = checkpoints_at(f"file://{tmp_path}")
    assert isinstance(again, StoredCheckpoints)
    draft = again.begin(5, "another")
    put(draft, "second")
    again.hand_in(draft, 5, 1, {"weights": [6, "…"]})
    found = checkpoints_at(f"file://{tmp_path}").latest()
    assert found is not None and Path(found.path("weights")).read_text() == "first"
    again.commit(draft, 5, {}, None)
    found = checkpoints_at(f"file://{tmp_path}").latest()
    assert found is not None and Path(found.path("weights")).read_text() == "second"
    assert len(list((tmp_path / "step-000000005").iterdir())) == 2, "the first is gone"


def test_halves_push_out_nothing_whole(tmp_path: Path) -> None:
    for step in (70, 80, 90):
        save(checkpoints_at(f"file://{tmp_path}"), step)
    for step in (100, 110, 120):
        (tmp_path / f"step-{step:09}").mkdir()
    save(checkpoints_at(f"file://{tmp_path}"), 130)
    assert steps(tmp_path) == [80, 90, 130]


def test_a_manifest_leads_nowhere_else(at: Open, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("weights")
    save(at(tmp_path / "here"), 1)
    path = save(at(tmp_path / "here"), 2) / MANIFEST
    told = json.loads(path.read_text())
    told["files"]["../../secret"] = told["files"]["weights"]
    path.write_text(json.dumps(told))
    found = at(tmp_path / "here").latest()
    assert found is not None and found.step == 1


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("s3://bucket/out", "no library for s3:// "),
        ("carrier-pigeon://out", "cannot be opened (ValueError: Protocol not known"),
    ],
)
def test_what_nobody_can_open_is_refused(place: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        checkpoints_at(place)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("save_seconds", "mean_seconds", "expected"),
    [
        (20.0, 2 * 3600.0, 516.7),  # a spot machine
        (20.0, 8 * 3600.0, 1053.3),  # a shared pool
        (0.0, 8 * 3600.0, FIRST_SECONDS),
        (120.0, 100 * 3600.0, MOST_SECONDS),
        (300.0, 600.0, 3000.0),  # saving never takes more than a tenth of the time
    ],
)
def test_how_often_to_save(save_seconds: float, mean_seconds: float, expected: float) -> None:
    assert seconds_until_save(save_seconds, mean_seconds) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("every", "due_at"), [("auto", 400.0), ("10s", 10.0)])
def test_writing_beside_the_training_takes_a_fifth_of_the_time_at_most(every: str, due_at: float) -> None:
    now = 0.0
    rhythm = Rhythm({"STOKER_CHECKPOINTS": every.removesuffix("s")}, clock=lambda: now)
    rhythm.saved(0.001)
    rhythm.written(100.0)
    now = due_at - 0.1
    assert not rhythm.is_due
    now = due_at
    assert rhythm.is_due
