"""A file as an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from stoker.api.download import file_response
from stoker.app import Stoker
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
