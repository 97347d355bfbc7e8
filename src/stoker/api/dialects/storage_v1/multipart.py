"""A body of `multipart/related`, read as it comes: JSON that says what is uploaded, then the content.

Clients differ in how they write it (contract, 4.2): the boundary stands in double quotes, in single ones or bare, and lines end
in CRLF or in LF alone. The first line of the body decides both.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any

from stoker.core.errors import BadSpec, TooLarge, Violation

MOST_HEAD_BYTES = 1 << 20
"""Of all that comes before the content."""


@dataclass(frozen=True, slots=True)
class Related:
    """What is uploaded: what the client says of it, its type where that stands there, and its bytes, still to come."""

    metadata: dict[str, Any]
    content_type: str
    content: AsyncIterator[bytes]


async def read_related(content_type: str, chunks: AsyncIterator[bytes]) -> Related:
    """Read as far as the content. `content_type`: that of the request. Raises BadSpec or TooLarge.

    The content raises BadSpec at its end if the body was cut off.
    """
    boundaries = _boundaries(content_type)
    body = _Body(chunks)
    line = await body.until(b"\n")
    boundary = line.rstrip(b" \t\r").removeprefix(b"--")
    if boundary not in boundaries or not line.startswith(b"--"):
        raise _bad("it does not begin with its boundary")
    delimiter = (b"\r\n" if line.endswith(b"\r") else b"\n") + b"--" + boundary
    await body.headers()
    metadata = _read_metadata(await body.until(delimiter))
    if (await body.until(b"\n")).strip():
        raise _bad("two parts are needed: JSON, then the content")
    headers = await body.headers()
    return Related(metadata, str(headers.get("content-type", "")), body.content(delimiter))


class _Body:
    """The bytes that have come and are not read yet."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""
        self._at = 0  # what is held before it was read: cut off when more comes, not for every line
        self._head_bytes = 0

    async def until(self, mark: bytes) -> bytes:
        """What comes before a mark; the mark itself is left out."""
        while (end := self._held.find(mark, self._at)) < 0:
            await self._more()
            if self._head_bytes + len(self._held) > MOST_HEAD_BYTES:
                raise TooLarge(f"what comes before the content may have {MOST_HEAD_BYTES >> 20} MiB")
        found = self._held[self._at : end]
        self._head_bytes += end + len(mark) - self._at
        self._at = end + len(mark)
        return found

    async def headers(self) -> Message:
        """The headers of a part, and the empty line after them."""
        lines = []
        while line := (await self.until(b"\n")).rstrip(b"\r"):
            lines.append(line)
        return BytesHeaderParser().parsebytes(b"\n".join(lines))

    async def content(self, delimiter: bytes) -> AsyncIterator[bytes]:
        """What comes before the last boundary, as it comes. What comes after that is nobody's."""
        self._held, self._at = self._held[self._at :], 0
        while True:
            at = self._held.find(delimiter)
            sure = at if at >= 0 else max(0, len(self._held) - len(delimiter) + 1)
            if sure:
                yield self._held[:sure]
                self._held = self._held[sure:]
            if at >= 0 and len(self._held) >= len(delimiter) + 2:
                follows = self._held[len(delimiter) : len(delimiter) + 2]
                if follows == b"--":
                    break
                if follows[:1] in b" \t\r\n":
                    raise _bad("two parts are needed: JSON, then the content")
                yield self._held[:1]  # a line of the content that only begins like the boundary
                self._held = self._held[1:]
            else:
                await self._more()
        async for _ in self._chunks:
            pass

    async def _more(self) -> None:
        chunk = await anext(self._chunks, None)
        if chunk is None:
            raise _bad("it ends before its last boundary")
        self._held, self._at = self._held[self._at :] + chunk, 0


def _boundaries(content_type: str) -> tuple[bytes, ...]:
    """What the boundary may be: single quotes around it may be its own, or those of a client that takes them for double ones."""
    message = Message()
    message["Content-Type"] = content_type.replace("\r", "").replace("\n", "")
    boundary = message.get_param("boundary")
    if message.get_content_maintype() != "multipart" or not isinstance(boundary, str) or not boundary.isascii():
        raise BadSpec([Violation("Content-Type", f"{content_type[:200]!r} is not multipart/related with a boundary")])
    is_quoted = len(boundary) > 2 and boundary[0] == boundary[-1] == "'"
    return (boundary.encode(), boundary[1:-1].encode()) if is_quoted else (boundary.encode(),)


def _read_metadata(text: bytes) -> dict[str, Any]:
    try:
        metadata = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadSpec([Violation("body", f"its first part is not JSON: {error}")]) from None
    if not isinstance(metadata, dict):
        raise BadSpec([Violation("body", "its first part is not an object")])
    return metadata


def _bad(problem: str) -> BadSpec:
    return BadSpec([Violation("body", f"not multipart/related: {problem}")])
