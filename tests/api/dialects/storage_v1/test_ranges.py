"""Ranges of downloads and of uploads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.dialects.storage_v1.ranges import ContentRange, read_content_range, read_range
from stoker.core.errors import BadRange, BadSpec


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_a_range_is_what_python_cuts(size: int, first: int, last: int) -> None:
    content = bytes(range(size))
    for header, expected in (
        (f"bytes={first}-{last}", content[first : last + 1]),
        (f"bytes={first}-", content[first:]),
        (f"bytes=-{last}", content[-last:] if last else b""),
    ):
        if header == f"bytes={first}-{last}" and last < first:
            assert read_range(header, size) is None
        elif not expected:
            with pytest.raises(BadRange):
                read_range(header, size)
        else:
            found = read_range(header, size)
            assert found is not None and content[slice(*found)] == expected


@pytest.mark.parametrize(
    "header", ["", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "items=0-1", "bytes=1", "0-1"]
)
def test_what_is_no_range_is_ignored(header: str) -> None:
    assert read_range(header, 10) is None


@given(st.text(max_size=30), st.integers(0, 100))
def test_no_header_breaks_it(header: str, size: int) -> None:
    for text in (header, f"bytes={header}"):
        try:
            found = read_range(text, size)
        except BadRange:
            continue
        assert found is None or 0 <= found[0] < found[1] <= size


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes 0-99/200", ContentRange(0, 100, 200)),
        ("bytes 100-199/200", ContentRange(100, 200, 200)),
        ("bytes 0-99/*", ContentRange(0, 100, None)),
        ("Bytes  0-0/1 ", ContentRange(0, 1, 1)),
        ("bytes */200", ContentRange(0, 0, 200)),
        ("bytes */0", ContentRange(0, 0, 0)),
        ("bytes */*", ContentRange(0, 0, None)),
    ],
)
def test_a_content_range(header: str, expected: ContentRange) -> None:
    found = read_content_range(header)
    assert found == expected and found.is_question == header.startswith("bytes *")


@pytest.mark.parametrize(
    "header", ["", "bytes", "bytes 5-4/10", "bytes 0-10/10", "bytes 0-/10", "bytes -5/10", "0-1/2", "bytes 0-1"]
)
def test_what_is_no_content_range_is_refused(header: str) -> None:
    with pytest.raises(BadSpec, match="Content-Range"):
        read_content_range(header)
