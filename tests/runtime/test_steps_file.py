"""The file in which a program tells of its steps: it is the program's own, so it may be anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.runtime.lines import Log
from stoker.runtime.steps_file import STREAM, StepsFile


class Hand:
    """A file, and what has become of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "steps.jsonl"
        self.kept = folder / "log.jsonl"
        self.log = Log(str(self.kept), None)
        self.steps = StepsFile(str(self.path), self.log)

    def writes(self, text: str) -> list[str]:
        """The program adds something, and it is looked at. Returns all that was passed on."""
        with open(self.path, "a") as file:
            file.write(text)
        return self.looked_at()

    def looked_at(self) -> list[str]:
        self.steps.pass_on()
        records = [json.loads(line) for line in self.kept.read_text().splitlines()]
        assert all(record["s"] == STREAM for record in records)
        return [record["m"] for record in records]


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    made = Hand(tmp_path)
    yield made
    made.log.drain(1.0)


def test_whole_lines_are_passed_on_once(hand: Hand) -> None:
    assert hand.looked_at() == []
    assert hand.writes("one\ntw") == ["one"]
    assert hand.writes("o\nthree\n") == ["one", "two", "three"]
    assert hand.looked_at() == ["one", "two", "three"]


def test_a_file_that_is_begun_anew(hand: Hand) -> None:
    hand.writes("one\ntwo\n")
    hand.path.write_text("new\n")
    assert hand.looked_at() == ["one", "two", "new"]


def test_much_at_once_and_what_is_too_long(hand: Hand) -> None:
    many = [f"line {n} {'x' * 100}" for n in range(2000)]
    assert hand.writes("\n".join(many) + "\n") == many
    assert hand.writes("y" * 300_000 + "\nshort\n")[-1] == "short"


def test_whoever_writes_too_much_keeps_nobody_from_all_else(hand: Hand) -> None:
    with open(hand.path, "wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe last\n")
    for _ in range(20):
        hand.steps.pass_on()
    assert hand.looked_at()[-1] == "the last"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_left_alone(hand: Hand, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    if kind == "link":
        hand.path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(hand.path)
    else:
        hand.path.mkdir()
    assert hand.looked_at() == []
