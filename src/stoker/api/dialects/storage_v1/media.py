"""The bytes of an object as an answer: all of them or a range, in constant memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import ExitStack
from email.utils import formatdate

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse

from stoker.api.download import MOST_BYTES, blocks_of
from stoker.api.errors import error_response
from stoker.api.pools import in_thread
from stoker.core.errors import BadRange
from stoker.store.objects.bucket import Bucket
from stoker.store.objects.object import Conditions, Object

from .parameters import check_generation
from .ranges import read_range
from .resources import content_type, seconds

_HASH_SECONDS = 5.0
"""How long the first byte may wait for the hash of a file that a program wrote. It is read at some GB/s for it, once."""


def media(bucket: Bucket, name: str, headers: Headers, conditions: Conditions, generation: int | None) -> Response:
    """An object's bytes. It is opened before anything is answered, so what cannot be read is refused and not cut off."""
    with ExitStack() as opened:
        hash_seconds = 0.0 if "range" in headers else _HASH_SECONDS
        found, file = opened.enter_context(bucket.read(name, hash_seconds=hash_seconds))
        check_generation(found, generation)
        if conditions.is_known(found):
            return not_modified(found)
        conditions.check(found)
        if _must_unpack(found, headers):
            return StreamingResponse(
                _unpacked(blocks_of(opened.pop_all(), file, found.size)), headers=_unpacked_headers(found)
            )
        wanted = headers.get("range", "") if headers.get("if-range", _etag(found)) == _etag(found) else ""
        try:
            part = read_range(wanted, found.size)
        except BadRange as error:
            refused = error_response(error)
            refused.headers["Content-Range"] = f"bytes */{found.size}"
            return refused
        first, end = part or (0, found.size)
        file.seek(first)
        answer = StreamingResponse(
            blocks_of(opened.pop_all(), file, end - first),
            status_code=200 if part is None else 206,
            headers={**_headers(found), "Content-Length": str(end - first)},
        )
        if part is not None:
            answer.headers["Content-Range"] = f"bytes {first}-{end - 1}/{found.size}"
        return answer


def not_modified(found: Object) -> Response:
    """The client has it already."""
    return Response(status_code=304, headers={"ETag": _etag(found)})


def _must_unpack(found: Object, headers: Headers) -> bool:
    """Whether it was uploaded as gzip, and the client takes none: then Cloud Storage unpacks it, too."""
    is_packed = found.said.content_encoding == "gzip" and "no-transform" not in found.said.cache_control
    return is_packed and "gzip" not in headers.get("accept-encoding", "").lower()


async def _unpacked(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unpack = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    async for block in blocks:
        while block:
            yield await in_thread(unpack.decompress, block, MOST_BYTES)
            block = unpack.unconsumed_tail


def _headers(found: Object) -> dict[str, str]:
    """What is known of an object. It is always an attachment: what others have put there is no page of this server."""
    hashes = {"crc32c": found.hashes.crc32c, "md5": found.hashes.md5}
    disposition = found.said.content_disposition
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": found.said.cache_control or "no-cache",
        "Content-Disposition": disposition if disposition.lower().startswith("attachment") else "attachment",
        "Content-Encoding": found.said.content_encoding,
        "Content-Language": found.said.content_language,
        "Content-Type": content_type(found),
        "ETag": _etag(found),
        "Last-Modified": formatdate(seconds(found.stamp.mtime_ns), usegmt=True),
        "X-Content-Type-Options": "nosniff",
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Hash": ",".join(f"{kind}={text}" for kind, text in hashes.items() if text),
        "X-Goog-Metageneration": str(found.metageneration),
        "X-Goog-Storage-Class": found.said.storage_class or "STANDARD",
        "X-Goog-Stored-Content-Encoding": found.said.content_encoding or "identity",
        "X-Goog-Stored-Content-Length": str(found.size),
    }
    return {name: text for name, text in headers.items() if text}


def _unpacked_headers(found: Object) -> dict[str, str]:
    """Headers of unpacked content: its length is not known before, and there are no ranges of it."""
    return {name: text for name, text in _headers(found).items() if name not in ("Accept-Ranges", "Content-Encoding")}


def _etag(found: Object) -> str:
    return f'"{found.etag}"'
