"""A file as an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from stoker.api.download import Pace, file_response
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
    pace = Pace(clock.now)
    sizes = []
    for seconds in (0.01, 0.01, 0.01, 0.01, 0.01, 5.0, 0.01):
        pace.sent()
        sizes.append(pace.size)
        clock.advance(seconds)
        pace.taken()
    assert sizes == [1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 20, 1 << 16]
