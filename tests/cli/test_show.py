"""How things look, and that nobody else's words can do anything to the terminal."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli import show
from stoker.core import errors as e
from stoker.core.errors import Violation


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("tab\there", "tab\there"),
        ("größe ✓ データ", "größe ✓ データ"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[38;2;1;2;3mx", "\x1b[38;2;1;2;3mx\x1b[0m"),
        ("\x1b]0;a new title\x07x", "x"),
        ("\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]52;c;cm0gLXJmIC8=\x07x", "x"),
        ("\x1b]0;never ends", ""),
        ("\x1b[2J\x1b[H\x1b[1;1Hx", "x"),
        ("\x1b[?1049h\x1b[?25lx", "x"),
        ("\x1b[6nx", "x"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1b_tmux\x1b\\x", "x"),
        ("\x1bcx", "x"),
        ("\x1b(0x", "x"),
        ("\x9b31mx\x9d0;t\x9cy", "xy"),
        ("a\rb\x08c\x07d\x00e\x7ff", "a�b�c�d�e�f"),
        ("a\nb", "a�b"),
        ("\x1b", ""),
        ("\x1b\x1b[2J", ""),
        ("\x1b[\x1b[31mJ", "\x1b[31mJ\x1b[0m"),
        ("\ud800", "�"),
    ],
)
def test_of_what_somebody_else_wrote_only_colours_are_left(text: str, shown: str) -> None:
    assert show.safe(text) == shown


@given(st.text(st.sampled_from("\x1b[]0;38mJHPX^_\\\x07\x9b\x9c\x9d \x00\r\n?ab"), max_size=40))
def test_no_text_gets_an_escape_past(text: str) -> None:
    left = re.sub(r"\x1b\[[0-9;:]*m", "", show.safe(text))
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", left)
    assert "\x1b[" not in show.safe(text) or show.safe(text).endswith("\x1b[0m")


def test_a_long_line_costs_no_time() -> None:
    assert show.safe("\x1b]" * 30_000) == ""
    assert show.safe("\x1b[" * 30_000 + "m").endswith("\x1b[0m")


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(["NAME", "COUNT", "SIZE"], [["a", 3, "x"], ["longer", 12, ""], ["データ", 1, None]])
    assert capsys.readouterr().out.splitlines() == [
        "NAME    COUNT  SIZE",
        "a           3  x",
        "longer     12  -",
        "データ      1  -",
    ]


def test_a_table_keeps_its_columns_in_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    show.table(["STATE", "X"], [[show.state("SUCCEEDED"), "a"], [show.state("FAILED"), "b"]])
    lines = capsys.readouterr().out.splitlines()
    assert "\x1b[32mSUCCEEDED" in lines[1] and "\x1b[31mFAILED" in lines[2]
    assert [re.sub(r"\x1b\[\d*m", "", line).index(last) for line, last in zip(lines, "Xab", strict=True)] == [11] * 3


def test_a_cell_cannot_break_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(["A", "B"], [["x\ny", "\x1b[2Jz\t\x1b]0;t\x07"]])
    assert capsys.readouterr().out == "A    B\nx�y  z\n"


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True),
    ],
)
def test_colours_respect_the_environment_and_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    show.done("x")
    show.say(show.state("FAILED"))
    said = capsys.readouterr()
    assert ("\x1b[32m✓" in said.err, "\x1b[31mFAILED" in said.out) == (coloured, coloured)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0s"),
        (0, "0.0s"),
        (4.24, "4.2s"),
        (59.94, "59.9s"),
        (60, "1m00s"),
        (372, "6m12s"),
        (11_100, "3h05m"),
        (90_061, "25h01m"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert show.duration(seconds) == shown


def test_data_has_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    show.data({"a": "\x1b[2J"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"schema_version": 1, "a": "\x1b[2J"} and "\x1b" not in out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (e.NotFound("x"), 3),
        (e.Unauthenticated("x"), 4),
        (e.Forbidden("x"), 4),
        (e.Unavailable("x"), 5),
        (e.AlreadyExists("x"), 6),
        (e.Unimplemented("x"), 6),
        (e.BadSpec([Violation("a", "b")]), 6),
        (e.NotReady([Violation("a", "b")]), 6),
        (e.StokerError("x"), 1),
        (e.Conflict("x"), 1),
    ],
)
def test_exit_codes(error: e.StokerError, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert show.error(error) == code
    assert capsys.readouterr().err.startswith("error: ")


def test_an_error_says_what_where_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show.error(
        e.BadSpec([Violation("config.yaml:3 region", "there is no such region; use us-central1")], fix="mend it")
    )
    assert capsys.readouterr().err.splitlines() == [
        "error: not a valid request",
        "  config.yaml:3 region: there is no such region; use us-central1",
        "  → mend it",
    ]


def test_many_mistakes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    show.error(e.NotReady([Violation("a", "x"), Violation("b", "y")]))
    assert capsys.readouterr().err.splitlines() == ["error: refused: 2 mistakes", "  a: x", "  b: y"]


def test_an_error_cannot_write_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show.error(e.NotFound("no job \x1b[2J\x1b]0;t\x07x\r"))
    assert capsys.readouterr().err == "error: no job x�\n"
