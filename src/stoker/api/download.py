"""Bytes of files as an answer, in constant memory: as many wait in the server as their reader takes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from starlette.responses import Response, StreamingResponse

from stoker.api.pools import in_thread
from stoker.store.files import Files

LEAST_BYTES, MOST_BYTES = 1 << 16, 1 << 21
MOST_WAITING_BYTES = 24 << 20
"""Of all readers together; beyond that each is sent the least."""
TAKEN = b""
"""Sent behind a block: uvicorn sends nothing before what it was given last is with the kernel, and that is when this is taken."""
_SLOW_SECONDS = 0.1


class Waiting:
    """What is read for all readers, and they have not taken yet."""

    def __init__(self) -> None:
        self.size_bytes = 0


_WAITING = Waiting()


class Pace:
    """How much a reader is sent at a time: that much waits for them in memory.

    Little at first, and to who takes it slowly; to everybody, while many others wait.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, waiting: Waiting = _WAITING) -> None:
        self._own_bytes = LEAST_BYTES
        self._now = now
        self._waiting = waiting
        self._sent_at = now()

    @contextmanager
    def block(self) -> Iterator[int]:
        """From before the next block is read until it is taken. How large it may be: that much is set apart meanwhile."""
        room = (MOST_WAITING_BYTES - self._waiting.size_bytes) // 2
        size_bytes = min(self._own_bytes, max(LEAST_BYTES, room))
        self._waiting.size_bytes += size_bytes
        try:
            yield size_bytes
        finally:
            self._waiting.size_bytes -= size_bytes
        is_slow = self._now() - self._sent_at > _SLOW_SECONDS
        self._own_bytes = LEAST_BYTES if is_slow else min(MOST_BYTES, self._own_bytes * 2)

    def sent(self) -> None:
        """It has been read, and goes out now."""
        self._sent_at = self._now()


async def blocks_of(opened: ExitStack, file: IO[bytes], size: int | None = None) -> AsyncIterator[bytes]:
    """The bytes of a file from where it stands, all or so many. Raises OSError if it ends before: so the reader sees that."""
    pace, left = Pace(), size
    with opened:
        while left is None or left > 0:
            with pace.block() as most:
                block = await in_thread(file.read, most if left is None else min(most, left))
                if not block:
                    if left is None:
                        return
                    raise OSError("the file was cut off while it was sent")
                left = left if left is None else left - len(block)
                pace.sent()
                yield block
                yield TAKEN


def file_response(files: Files, uri: str) -> Response:
    """The file, opened before anything is answered, so that one that cannot be read is refused and not cut off."""
    opened = ExitStack()
    return response_of(opened, opened.enter_context(files.read(uri)))


def response_of(opened: ExitStack, file: IO[bytes]) -> Response:
    """A file that is open. `opened`: what is closed when it was sent."""
    return StreamingResponse(
        blocks_of(opened, file),
        media_type="application/octet-stream",
        headers={"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"},
    )
