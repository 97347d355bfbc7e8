"""A file as an answer."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.types import Message

from stoker.api.download import LEAST_BYTES, MOST_WAITING_BYTES, Pace, Waiting, file_response
from stoker.app import Stoker
from stoker.clock import ManualClock
from stoker.core.errors import NotFound


def test_a_file_that_cannot_be_read_is_refused_before_anything_is_answered(stoker: Stoker) -> None:
    with pytest.raises(NotFound):
        file_response(stoker.services.files, "gs://some-bucket/nothing")


def test_a_large_file_comes_in_blocks(stoker: Stoker) -> None:
    content = bytes(5 << 20)
    with stoker.services.files.write("gs://some-bucket/large") as file:
        file.write(content)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "method": "GET", "headers": []}
    asyncio.run(file_response(stoker.services.files, "gs://some-bucket/large")(scope, receive, send))
    blocks = [message["body"] for message in sent if message["type"] == "http.response.body"]
    assert b"".join(blocks) == content and len(blocks) > 4


def test_who_takes_it_slowly_keeps_little_waiting() -> None:
    clock = ManualClock()
    pace = Pace(clock.now, Waiting())
    sizes = []
    for seconds in (0.01, 0.01, 0.01, 0.01, 0.01, 5.0, 0.01):
        with pace.block() as size_bytes:
            sizes.append(size_bytes)
            clock.advance(50.0)  # a disk that is slow is no fault of the reader's
            pace.sent()
            clock.advance(seconds)
    assert sizes == [1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 16]


def test_of_many_that_take_nothing_little_waits_in_all() -> None:
    clock, waiting = ManualClock(), Waiting()
    with ExitStack() as stopped:
        for _ in range(300):  # quick at first, so that each would be sent the most
            pace = Pace(clock.now, waiting)
            for _ in range(6):
                with pace.block():
                    pace.sent()
            stopped.enter_context(pace.block())
        assert waiting.size_bytes < MOST_WAITING_BYTES + 300 * LEAST_BYTES
        assert stopped.enter_context(Pace(clock.now, waiting).block()) == LEAST_BYTES
    assert waiting.size_bytes == 0, "who goes away keeps nothing"
