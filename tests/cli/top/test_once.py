"""What is printed where there is no full screen."""

from __future__ import annotations

import pytest

from stoker.cli.top.once import is_screen, print_once
from tests.cli.top.overviews import a_gpu, a_row, an_overview


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    print_once(an_overview([a_gpu(job="j")], [a_row()]), "http://127.0.0.1:7077")
    return capsys.readouterr().out


def test_it_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)
    assert "\x1b" not in out and "PRODUCT" in out and "j/chief-0" in out
    assert all(line == line.rstrip() and len(line) <= 160 for line in out.splitlines())


@pytest.mark.parametrize(("columns", "has_power"), [("80", True), ("40", False)])
def test_it_is_as_wide_as_it_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, has_power: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = printed(capsys)
    assert ("POWER" in out) == has_power and max(map(len, out.splitlines()[2:])) <= int(columns)


def test_colours_are_for_who_wants_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[36m" in printed(capsys)


def test_a_pipe_is_no_screen() -> None:
    assert not is_screen()
