"""Output cut into lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.runtime.lines import LONGEST_LINE_BYTES, Lines


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
