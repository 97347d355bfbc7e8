"""What others have written does no harm where it is shown: on a terminal, in a table, in a report (ClearML CVE-2024-39272).

A job's output reaches a terminal as it came, but for what would move the cursor, change the title, fill the clipboard or forge
a line; colours pass.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from stoker.cli import show
from stoker.cli.follow import Screen
from stoker.simulate import markup

SOURCE = Path(__file__).parents[2] / "src" / "stoker"
PAGES = {"simulate/markup.py", "simulate/page.py", "simulate/report.py", "simulate/time_machine_report.py"}
"""Where a page begins and ends; what stands in it is markup."""

HARMFUL = {
    "title": "\x1b]0;evil\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clipboard, not ended": "\x1b]52;c;ZXZpbA==",
    "8-bit": "\x9d52;c;ZXZpbA==\x9c",
    "cursor": "\x1b[2J\x1b[1;1H",
    "cursor, 8-bit": "\x9b2J",
    "device control": "\x1bP$q\x1b\\",
    "privacy message": "\x1b^x\x1b\\",
    "string": "\x1bXx\x1b\\",
    "reset": "\x1bc",
    "character set": "\x1b(0",
    "query": "\x1b[6n",
    "mode": "\x1b[?1049h",
    "bell and back": "\x07\x08\x08\x08",
    "carriage return": "fine\rforged",
    "NUL": "a\x00b",
    "C1": "\x84\x85\x8d\x90",
    "delete": "\x7f",
    "bidi": "user\u202etxt.exe\u2066\u2069",
    "line separator": "a\u2028forged\u2029b",
    "half a character": "\ud800",
    "zero width": "a\u200bb\ufeff",
}
LEFT = re.compile(
    r"\x1b(?!\[[0-9;:]*m)"
    r"|[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_a_line_of_a_job_is_harmless(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    screen = Screen("job")
    screen.line({"replica": "chief-0", "stream": "out", "text": f"before {text} after"})
    screen.show({"kind": "end", "state": "FAILED", "message": text, "ended_at": 1.0, "started_at": 0.5})
    show.table(["NAME"], [[text]])
    show.error(show.StokerError(text, fix=text))
    shown = capsys.readouterr()
    for stream in (shown.out, shown.err):
        assert not LEFT.search(stream.replace("\n", "")), ascii(stream)
    assert len(shown.out.splitlines()) == 3, "nothing forges a line"


def test_colours_pass_and_end_with_their_line() -> None:
    assert show.safe("\x1b[1;31mred\x1b[0m plain") == "\x1b[1;31mred\x1b[0m plain\x1b[0m"
    assert click.unstyle(show.safe("\x1b[38;2;1;2;3mx")) == "x"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\"><img src=x onerror='1'>", "&lt;", "]]><x/>", "\x00\x1b\ufffe"]
)
def test_a_report_shows_text_as_text(text: str) -> None:
    made = markup.tag("td", text, title=text)
    assert "<script" not in made and "<img" not in made and "\x00" not in made
    assert not re.search(r'="[^"]*"[^ />]', made), "nothing leads out of an attribute"


def test_every_report_is_made_of_markup() -> None:
    """HTML that is written by hand somewhere else would have to be escaped a second time."""
    by_hand = re.compile(r"</?(div|td|tr|script|html|body|span|svg)\b")
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if by_hand.search(path.read_text())}
    assert found <= PAGES, "make it of simulate/markup.py"


def test_no_table_is_exported_in_which_a_cell_could_be_a_formula() -> None:
    """There is no export to spreadsheets; one that is added has to put an apostrophe before = + - @, and a test here."""
    writes = re.compile(r"csv\.(writer|DictWriter)")
    assert not [path for path in SOURCE.rglob("*.py") if writes.search(path.read_text())]
