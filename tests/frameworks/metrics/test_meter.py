"""Steps are counted and timed, and told in windows: by a clock that a test turns, and in real interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stoker.beat_files import STEPS
from stoker.frameworks.metrics.meter import LONGEST_SECONDS, MOST_VALUES, Meter
from stoker.frameworks.torch.optimizer_steps import size_of


class Hand:
    """A meter, its clock, and what it has told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[dict[str, Any]] = []
        self.meter = Meter(lambda line: self.told.append(json.loads(line)), lambda: self.now, lambda: 1000 + self.now)

    def steps(self, count: int, seconds: float, **measured: float) -> None:
        """So many steps of so many seconds."""
        for _ in range(count):
            self.now += seconds
            for what, value in measured.items():
                getattr(self.meter, what)(value)
            self.meter.step(1, 32)


def test_the_first_step_is_told_at_once_and_alone() -> None:
    hand = Hand()
    hand.now += 60.0  # imports
    hand.meter.begin()
    hand.steps(1, 5.0)
    (first,) = hand.told
    assert (first["step"], first["steps"], first["seconds"], first["aside"]) == (1, 1, 5.0, 0.0)
    assert (first["waited"], first["together"]) == (None, None), "not known is not nothing"


def test_a_window_adds_up() -> None:
    hand = Hand()
    hand.steps(1, 0.125)
    hand.steps(8, 0.125, waited=0.03, together=0.01)
    window = hand.told[1]
    assert (window["step"], window["steps"], window["examples"]) == (9, 8, 256)
    assert [window[name] for name in ("seconds", "longest", "waited", "together")] == pytest.approx(
        [1.0, 0.125, 0.24, 0.08]
    )


def test_what_is_done_aside_is_no_part_of_a_step() -> None:
    hand = Hand()
    hand.steps(1, 0.1)
    hand.now += 7.0  # it saves, within a step
    hand.meter.saving(7.0)
    hand.steps(1, 0.1)
    hand.now += 50.0  # it evaluates, between two
    hand.meter.begin()
    hand.steps(10, 0.1)
    hand.meter.tell()
    window = hand.told[1]
    assert window["longest"] == pytest.approx(0.1) and [window["aside"], window["saving"]] == pytest.approx([7.0, 7.0])
    assert sum(w["aside"] for w in hand.told) == pytest.approx(57.0)
    assert sum(w["seconds"] for w in hand.told) == pytest.approx(1.2)


def test_windows_grow_and_none_is_longer_than_a_minute() -> None:
    hand = Hand()
    hand.steps(7 * 86400, 1.0)
    times = [window["t"] for window in hand.told]
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[1] == 1.0 and max(gaps) == LONGEST_SECONDS and len(hand.told) < 12_000
    hand.meter.tell()
    assert hand.told[-1]["step"] == sum(window["steps"] for window in hand.told) == 7 * 86400


def test_the_length_of_an_epoch_is_told_when_it_changes() -> None:
    hand = Hand()
    for steps in (0, 65, 65, 17):
        hand.meter.epoch(steps)
    assert [note["epoch_steps"] for note in hand.told] == [65, 17]


def test_values_are_numbers_or_words_for_what_is_none() -> None:
    hand = Hand()
    hand.meter.report({"loss": float("nan"), "far": float("-inf"), "text": "high", "many": [1, 2], "rate": 0.1, "n": 3})
    hand.meter.report({f"v{n}": n for n in range(100)})
    hand.meter.tell()
    (told,) = hand.told
    values = told["values"]
    assert (values["loss"], values["far"], values["rate"], values["n"]) == ("nan", "-inf", 0.1, 3.0)
    assert "text" not in values and "many" not in values and len(values) == MOST_VALUES
    hand.meter.tell()
    assert len(hand.told) == 1, "nothing is told twice"


LOOP = """
import os, time, stoker
for batch in stoker.reading(range(4)):
    stoker.step(examples=2, loss=batch / 2)
stoker.report(accuracy=0.5)
if os.fork() == 0:
    stoker.step()
else:
    os.wait()
"""


def run(program: str, folder: Path, **variables: str) -> list[dict[str, Any]]:
    """What a program has told."""
    folder.mkdir(exist_ok=True)
    environment = {"STOKER_BEAT_FILE": str(folder / "beat"), **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    path = folder / STEPS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_loop_of_a_programs_own(tmp_path: Path) -> None:
    told = run(LOOP, tmp_path)
    assert [note["epoch_steps"] for note in told if "epoch_steps" in note] == [4], "it steps once for each item"
    told = [window for window in told if "step" in window]
    assert [window["step"] for window in told] == [1, 4], "a fork that steps, too, is another process"
    assert sum(window["examples"] for window in told) == 8 and told[-1]["waited"] is not None
    assert told[-1]["values"] == {"loss": 1.5, "accuracy": 0.5}


UNKNOWN_LENGTH = """
import stoker
class Stream:
    def __iter__(self):
        return iter(range(3))
    def __len__(self):
        raise TypeError("a stream has no length")
for item in stoker.reading(Stream()):
    stoker.step()
"""


def test_a_stream_has_no_length_whatever_it_has(tmp_path: Path) -> None:
    assert [window["step"] for window in run(UNKNOWN_LENGTH, tmp_path)] == [1, 3]


def test_outside_of_a_job_and_switched_off_nothing_is_told(tmp_path: Path) -> None:
    assert run(LOOP, tmp_path, STOKER_STEP_METRICS="none") == []
    done = subprocess.run([sys.executable, "-c", LOOP], env={}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr


def test_where_nothing_can_be_written_the_program_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import stoker\nfor _ in range(3): stoker.step()\nprint('done')"],
        env={"STOKER_BEAT_FILE": str(tmp_path / "nowhere/beat")}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "done\n" and done.stderr.startswith("stoker: steps are not told: "), done.stderr


class Odd:
    """Something that has a shape, but not as arrays have one."""

    shape = "round"


class Array:
    def __init__(self, *shape: int) -> None:
        self.shape = shape


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (Array(8, 3), 8),
        ([Array(8, 3), Array(8)], 8),
        ({"text": ["a"], "ids": (Array(4, 2),)}, 4),
        (Array(), 0),
        (Odd(), 0),
        ([Odd(), Array(5)], 5),
        ("text", 0),
        ([[[[[[[Array(3)]]]]]]], 0),
        (None, 0),
    ],
)
def test_how_many_examples_a_batch_has(batch: object, size: int) -> None:
    assert size_of(batch) == size
