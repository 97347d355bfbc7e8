"""A file of a bucket as an answer, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from starlette.responses import Response, StreamingResponse

from stoker.store.files import Files

_BLOCK_BYTES = 1 << 20


def file_response(files: Files, uri: str) -> Response:
    """The file, opened before anything is answered, so that one that cannot be read is refused and not cut off."""
    stack = ExitStack()
    file = stack.enter_context(files.read(uri))

    def blocks() -> Iterator[bytes]:
        with stack:
            while block := file.read(_BLOCK_BYTES):
                yield block

    return StreamingResponse(
        blocks(),
        media_type="application/octet-stream",
        headers={"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"},
    )
