"""Several processes write one checkpoint: whole, or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.checkpointing.parts.part import Objects, Write
from stoker.frameworks.checkpointing.remote import checkpoints_at
from stoker.frameworks.checkpointing.saving import Saved, Saving


class Slow:
    """A part that is written when it may be."""

    name, names = "slow", ["slow"]

    def __init__(self, error: OSError | None = None) -> None:
        self.may = threading.Event()
        self.error = error

    def stage(self, draft: str) -> Write:
        def write() -> None:
            assert self.may.wait(60)
            if self.error is not None:
                raise self.error
            Path(draft, "slow").write_text("yes")

        return write

    def restore(self, found: Checkpoint) -> None: ...


@pytest.fixture(params=["", "file://"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, and what each process has to send to."""
    return f"{request.param}{tmp_path}"


def savings(place: str, count: int) -> list[Saving]:
    return [Saving(checkpoints_at(place), rank, count, "1-0") for rank in range(count)]


def objects(rank: int) -> Objects:
    return Objects({"rank": rank}, ["rank"], rank)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def finish(found: list[Saving]) -> None:
    for saving in reversed(found):
        saving.wait()


def test_each_writes_its_own_and_the_chief_puts_it_in_place(place: str, tmp_path: Path) -> None:
    found = savings(place, 3)
    for step in (4, 5, 5):
        for saving in found:
            saving.wait()
            saving.start(step, {"place": [0]}, [objects(saving._rank).stage])
    finish(found)
    assert names(tmp_path) == ["step-000000004", "step-000000005"]
    latest = checkpoints_at(place).latest()
    assert latest is not None and latest.state == {"place": [0], "processes": 3}
    assert set(names(Path(latest.folder))) - {"MANIFEST.json"} == {"process-0", "process-1", "process-2"}


def test_nothing_counts_before_all_have_written(place: str, tmp_path: Path) -> None:
    chief, other = savings(place, 2)
    slow = Slow()
    chief.start(1, {}, [objects(0).stage])
    other.start(1, {}, [objects(1).stage, slow.stage])
    assert checkpoints_at(place).latest() is None and chief.is_busy and other.is_busy
    slow.may.set()
    finish([chief, other])
    latest = checkpoints_at(place).latest()
    assert latest is not None and "slow" in names(Path(latest.folder)), "whose it is, nobody needs to know"


def test_what_one_cannot_write_all_give_up(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they agree to do when they look the next time."""
    found = chief, other = savings(place, 2)
    for saving in found:
        saving.start(1, {}, [objects(saving._rank).stage])
    finish([chief, other])
    broken = Slow(OSError(28, "No space left on device"))
    broken.may.set()
    step = 20 + place.count("://")  # what is said twice in a process is printed once
    saved = chief.start(step, {}, [objects(0).stage])
    failed: Saved = other.start(step, {}, [objects(1).stage, broken.stage])
    other.wait()
    assert failed.has_failed and chief.is_busy
    saved.is_given_up = True
    chief.wait()
    assert saved.has_failed and names(tmp_path) == ["step-000000001"], "and nothing of it is left"
    said = capsys.readouterr().err
    assert (
        f"step {step} could not be written" in said
        and f"step {step} is given up" in said
        and "process 1 has not" in said
    )
