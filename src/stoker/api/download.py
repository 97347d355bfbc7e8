"""Bytes of files as an answer, in constant memory: as many wait in the server as their reader takes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import IO

from starlette.responses import Response, StreamingResponse

from stoker.api.pools import in_thread
from stoker.store.files import Files

LEAST_BYTES, MOST_BYTES = 1 << 16, 1 << 20
_SLOW_SECONDS = 0.1


class Pace:
    """How much a reader is sent at a time: little at first and to who takes it slowly, as that much waits for them in memory."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.size = LEAST_BYTES
        self._now = now
        self._sent_at = now()

    def taken(self) -> None:
        """The last block has been taken."""
        is_slow = self._now() - self._sent_at > _SLOW_SECONDS
        self.size = LEAST_BYTES if is_slow else min(MOST_BYTES, self.size * 2)

    def sent(self) -> None:
        """A block goes out now."""
        self._sent_at = self._now()


async def blocks_of(opened: ExitStack, file: IO[bytes], size: int | None = None) -> AsyncIterator[bytes]:
    """The bytes of a file from where it stands, all or so many. Raises OSError if it ends before: so the reader sees that."""
    pace, left = Pace(), size
    with opened:
        while left is None or left > 0:
            block = await in_thread(file.read, pace.size if left is None else min(pace.size, left))
            if not block:
                if left is None:
                    return
                raise OSError("the file was cut off while it was sent")
            left = left if left is None else left - len(block)
            pace.sent()
            yield block
            pace.taken()


def file_response(files: Files, uri: str) -> Response:
    """The file, opened before anything is answered, so that one that cannot be read is refused and not cut off."""
    opened = ExitStack()
    file = opened.enter_context(files.read(uri))
    return StreamingResponse(
        blocks_of(opened, file),
        media_type="application/octet-stream",
        headers={"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"},
    )
