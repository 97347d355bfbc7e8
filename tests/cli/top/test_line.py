"""Lines fit their width to the column, whatever stands in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stoker.cli.top.line import Column, fitted, heading, plain, row_of, widths

COLUMNS = (
    Column(name="NAME", least=6, most=30),
    Column(name="STATE", least=5, most=9, drop=1),
    Column(name="BUSY", least=5, most=5, is_right=True),
    Column(name="NOTE", least=8, most=40, drop=2, grows=True),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\nb\tc", "a�b c"),
        ("a\u202eb\u200bc\ufeff", "a�bc"),
        ("\x1b[2J\x1b[H", ""),
        ("训练_jöb", "训练_jöb"),
    ],
)
def test_what_somebody_else_wrote_is_harmless(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(max_size=50))
def test_nothing_that_moves_the_cursor_is_left(text: str) -> None:
    assert not [c for c in plain(text) if ord(c) < 32 or 0x7F <= ord(c) < 0xA0]


@given(st.text(alphabet="ab训é", max_size=20), st.integers(min_value=0, max_value=30))
def test_a_text_takes_exactly_its_width(text: str, width: int) -> None:
    assert cell_len(fitted(text, width)) == cell_len(fitted(text, width, is_right=True)) == width


def test_what_is_too_long_ends_in_an_ellipsis() -> None:
    assert (fitted("abcdef", 4), fitted("abcd", 4), fitted("ab", 4, is_right=True)) == ("abc…", "abcd", "  ab")
    assert fitted("训练训练", 5) == "训练…"


@given(
    st.lists(st.tuples(*[st.text(alphabet="ab训", max_size=60)] * 4), max_size=5),
    st.integers(min_value=1, max_value=300),
)
def test_a_table_is_never_wider_than_there_is_room(rows: list[tuple[str, str, str, str]], width: int) -> None:
    sizes = widths(COLUMNS, rows, width)
    for row in rows:
        assert cell_len("".join(text for text, _ in row_of(COLUMNS, sizes, [(text, "") for text in row]))) <= width
    assert cell_len("".join(text for text, _ in heading(COLUMNS, sizes))) <= width


def test_the_least_important_column_goes_first() -> None:
    rows = [("a-long-name", "RUNNING", "100 %", "x" * 50)]
    assert widths(COLUMNS, rows, 300) == [11, 7, 5, 40]
    assert widths(COLUMNS, rows, 40) == [11, 7, 5, 11]
    assert widths(COLUMNS, rows, 29)[3] == 0 and widths(COLUMNS, rows, 29)[1] > 0
    assert widths(COLUMNS, rows, 14) == [7, 0, 5, 0]


def test_an_empty_column_is_left_out() -> None:
    assert widths(COLUMNS, [("a", "", "1 %", "")], 80)[1] == 0
