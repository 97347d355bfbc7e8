"""Bodies are read with a limit, and nothing that is not JSON gets past."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from stoker.api.services import LARGEST_BODY_BYTES, read_json
from stoker.core.errors import BadSpec, TooLarge


def read(*chunks: bytes) -> Any:
    """Read a body that comes in these pieces."""
    rest = list(chunks)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": rest.pop(0), "more_body": bool(rest)}

    return asyncio.run(read_json(Request({"type": "http", "method": "POST", "headers": []}, receive)))


def test_a_body_in_pieces() -> None:
    assert read(b'{"a"', b": [1, ", b"2]}") == {"a": [1, 2]}


def test_no_body_is_an_empty_message() -> None:
    assert read(b"") == {}


def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    block = b" " * (1 << 20)
    with pytest.raises(TooLarge):
        read(*[block] * (LARGEST_BODY_BYTES // len(block) + 2))


@pytest.mark.parametrize("body", [b"{", b"\xff", b"NaN", b"-Infinity", b"[" * 100_000, b"9" * 5000])
def test_what_is_not_json(body: bytes) -> None:
    with pytest.raises(BadSpec) as refused:
        read(body)
    assert refused.value.violations[0].field == "body"
