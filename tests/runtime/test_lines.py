"""Output cut into lines."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runtime.lines import LONGEST_LINE_BYTES, Lines, Log


def cut(*chunks: bytes) -> list[str]:
    lines = Lines()
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.end()


def test_lines_wherever_the_chunks_end() -> None:
    assert cut(b"one\ntw", b"o\nthr", b"ee") == ["one", "two", "three"]


def test_blank_lines_are_dropped() -> None:
    assert cut(b"\n\n a \n  \n") == [" a"]


def test_of_a_progress_bar_the_last_writing_counts() -> None:
    assert cut(b"1/3\r2/3\r3/3\nnext\r\n") == ["3/3", "next"]
    assert cut(b"epoch\x08\x08\x08\x08\x08done\n") == ["epochdone"]


def test_an_endless_line_is_cut() -> None:
    found = cut(b"x" * (3 * LONGEST_LINE_BYTES))
    assert all(len(line) <= LONGEST_LINE_BYTES for line in found) and len(found) >= 1


def test_what_is_not_utf_8_is_kept_readable() -> None:
    assert cut(b"ok \xff\xfe ok\n") == ["ok \ufffd\ufffd ok"]


@given(
    st.lists(st.text(alphabet=st.characters(blacklist_characters="\r\n\x08", blacklist_categories=["Cs"]))), st.data()
)
def test_any_text_comes_out_as_it_went_in(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(text + "\n" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert cut(*chunks) == [text.rstrip() for text in texts if text.rstrip()]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_ends_no_training() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        log = Log(full, None)
        log.write("out", "one")
        log.write("err", "two")
        assert (log.last_number, list(log.last_errors)) == (3, ["two"]), "one line more, which says that there are gaps"
        log.drain(5)
