"""Bytes on their way in, in constant memory, with the disk's work in threads."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from stoker.api.pools import in_thread
from stoker.core.errors import BadSpec, StokerError, Unimplemented, Violation
from stoker.store.objects.hashes import BLOCK_BYTES

CLIENT_HAS_GONE = 499
"""To a client that has cancelled its upload, as Cloud Storage answers; and to one that will not read it."""
_MOST_DRAINED_BYTES = 256 << 20
_GZIP = 16 + zlib.MAX_WBITS


async def pour(chunks: AsyncIterator[bytes], write: Callable[[bytes], None]) -> None:
    """Write what comes in large blocks, each in a thread while the next one comes in.

    When the client goes away in the middle, what has come is written all the same: it may want to go on from there.
    """
    held: list[bytes] = []
    size = 0
    writing: asyncio.Future[None] | None = None
    try:
        async for chunk in chunks:
            held.append(chunk)
            size += len(chunk)
            if size >= BLOCK_BYTES:
                if writing is not None:
                    await writing
                writing = asyncio.ensure_future(in_thread(write, b"".join(held)))
                held, size = [], 0
    finally:
        if writing is not None:
            await writing
        if size:
            await in_thread(write, b"".join(held))


def body(request: Request) -> AsyncIterator[bytes]:
    """The body, unpacked if it was packed for the way. Raises Unimplemented for what is packed in another way than gzip."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise Unimplemented(f"a body with Content-Encoding: {encoding[:80]!r}", fix="send it as it is, or as gzip")
    return _inflated(request.stream()) if encoding == "gzip" else request.stream()


async def heard_out(request: Request, answer: Awaitable[Response]) -> Response:
    """The answer. A refusal waits until the body has come: a client that is cut off while it sends does not get to read it."""
    try:
        return await answer
    except ClientDisconnect:
        return Response(status_code=CLIENT_HAS_GONE)
    except StokerError:
        with suppress(ClientDisconnect):
            await drain(request)
        raise


async def drain(request: Request) -> None:
    """Take in what is left of the body, within reason."""
    left = _MOST_DRAINED_BYTES
    with suppress(RuntimeError):  # so Starlette says that all of it has come
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                break


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unpack = zlib.decompressobj(_GZIP)
    try:
        async for chunk in chunks:
            while chunk:
                yield unpack.decompress(chunk, BLOCK_BYTES)
                chunk = unpack.unconsumed_tail
        if not unpack.eof:
            raise zlib.error("it was cut off")
    except zlib.error as error:
        raise BadSpec([Violation("body", f"not gzip: {error}")]) from None
