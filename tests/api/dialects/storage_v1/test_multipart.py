"""Bodies of multipart/related, however a client writes them and however they are cut on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.dialects.storage_v1.multipart import MOST_HEAD_BYTES, read_related
from stoker.core.errors import BadSpec, TooLarge

METADATA = {"name": "a/b", "metadata": {"k": "v"}}
QUOTES = {"bare": "{}", "single": "'{}'", "double": '"{}"'}


def a_body(content: bytes, *, boundary: str = "===1==", end: bytes = b"\r\n", metadata: Any = METADATA) -> bytes:
    mark = b"--" + boundary.encode()
    lines = [mark, b"Content-Type: application/json; charset=UTF-8", b"", json.dumps(metadata).encode()]
    return end.join([*lines, mark, b"Content-Type: text/x", b"MIME-Version: 1.0", b"", content, mark + b"--"])


def read(body: Iterable[bytes], content_type: str) -> tuple[dict[str, Any], str, bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in body:
            yield chunk

    async def all_of_it() -> tuple[dict[str, Any], str, bytes]:
        related = await read_related(content_type, chunks())
        content = [block async for block in related.content]
        return related.metadata, related.content_type, b"".join(content)

    return asyncio.run(all_of_it())


def cut(body: bytes, edges: Iterable[int]) -> list[bytes]:
    """A body in pieces, some of them empty."""
    points = [0, *sorted(min(edge, len(body)) for edge in edges), len(body)]
    return [body[points[n] : points[n + 1]] for n in range(len(points) - 1)]


@given(
    content=st.binary(max_size=200)
    | st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"-", b"--", b"--b", b"\n--b", b"\r\n--", b"b", b"x"])).map(
        b"".join
    ),
    quotes=st.sampled_from(list(QUOTES)),
    end=st.sampled_from([b"\n", b"\r\n"]),
    tail=st.sampled_from([b"", b"\n", b"\r\n", b"\r\nepilogue\r\n--b--"]),
    edges=st.lists(st.integers(0, 400), max_size=12),
)
def test_what_was_put_in_comes_out(content: bytes, quotes: str, end: bytes, tail: bytes, edges: list[int]) -> None:
    boundary = "boundary-which-the-content-has-not"
    body = a_body(content, boundary=boundary, end=end) + tail
    content_type = f"multipart/related; boundary={QUOTES[quotes].format(boundary)}"
    assert read(cut(body, edges), content_type) == (METADATA, "text/x", content)


@given(st.binary(max_size=60), st.lists(st.integers(0, 300), max_size=5))
def test_a_content_whose_lines_begin_almost_like_the_boundary(content: bytes, edges: list[int]) -> None:
    content = b"\r\n--bound" + content + b"\r\n--boundary-\r\n--boundaryX"
    body = a_body(content, boundary="boundary")
    assert read(cut(body, edges), "multipart/related; boundary=boundary")[2] == content


@given(st.integers(1, 250), st.lists(st.integers(0, 300), max_size=5))
def test_a_body_that_is_cut_off_is_refused(missing: int, edges: list[int]) -> None:
    body = a_body(b"content" * 10)
    with pytest.raises(BadSpec):
        read(cut(body[: max(0, len(body) - missing)], edges), "multipart/related; boundary====1==")


def test_single_quotes_may_be_the_boundary_s_own() -> None:
    assert read([a_body(b"x", boundary="'b'")], "multipart/related; boundary=\"'b'\"")[2] == b"x"
    assert read([a_body(b"x", boundary="b")], "multipart/related; boundary='b'")[2] == b"x"


def test_gcloud_s_body() -> None:
    """As `gcloud ai-platform jobs submit training` sends it (contract, 4.2)."""
    body = (
        b"--===============7330845974216740156==\nContent-Type: application/json\nMIME-Version: 1.0\n\n"
        b'{"name": "job/x.tar.gz"}\n--===============7330845974216740156==\nContent-Type: application/octet-stream\n'
        b"MIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n\x1f\x8b\r\n\n--===============7330845974216740156==--"
    )
    found = read([body], "multipart/related; boundary='===============7330845974216740156=='")
    assert found == ({"name": "job/x.tar.gz"}, "application/octet-stream", b"\x1f\x8b\r\n")


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/json; boundary=b", "multipart/related", "multipart/related; boundary=ü"],
)
def test_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(BadSpec, match="Content-Type"):
        read([a_body(b"x", boundary="b")], content_type)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\r\n",
        b"--other\r\n\r\n{}\r\n--b\r\n\r\nx\r\n--b--",
        b"b\r\n\r\n{}\r\n--b\r\n\r\nx\r\n--b--",
        b"--b\r\n\r\n{}\r\n--b--",
        b"--b\r\n\r\n{\r\n--b\r\n\r\nx\r\n--b--",
        b"--b\r\n\r\n[]\r\n--b\r\n\r\nx\r\n--b--",
        b"--b\r\n\r\n" + b"[" * 100_000 + b"\r\n--b\r\n\r\nx\r\n--b--",
        b"--b\r\n\r\n\xff\r\n--b\r\n\r\nx\r\n--b--",
        b"--b\r\n\r\n{}\r\n--b\r\n\r\nx\r\n--b\r\n\r\na third part\r\n--b--",
    ],
)
def test_what_is_no_such_body_is_refused(body: bytes) -> None:
    with pytest.raises(BadSpec, match="body"):
        read([body], "multipart/related; boundary=b")


def test_no_more_than_a_little_is_held_before_the_content() -> None:
    for endless in (b"--b\r\n\r\n", b"--b\r\nX: ", b""):
        chunks = [endless, *[b"x" * 65536] * 100]
        with pytest.raises(TooLarge):
            read(chunks, "multipart/related; boundary=b")
    assert MOST_HEAD_BYTES < 100 * 65536


def test_content_is_given_out_as_it_comes() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield a_body(b"")[:-10]
        for _ in range(100):
            yield b"x" * 1000
        raise AssertionError("the reader waited for more than it needs")

    async def first_blocks() -> int:
        related = await read_related("multipart/related; boundary====1==", chunks())
        size = 0
        async for block in related.content:
            size += len(block)
            if size > 50_000:
                break
        return size

    assert asyncio.run(first_blocks()) > 50_000
