"""One request to an ASGI application, its path sent as it stands: TestClient tidies up `..` and decodes twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """What came back."""

    status_code: int
    body: bytes


def request(app: ASGIApp, method: str, path: str, token: str, content: bytes = b"", *, cut: bool = False) -> Answer:
    """Send one request, as a server would decode it: once. `cut`: the client goes away in the middle of its body."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"127.0.0.1:7077"), (b"authorization", f"Bearer {token}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7077),
    }
    sent: list[Message] = []
    received: list[Message] = [{"type": "http.request", "body": content, "more_body": cut}]

    async def receive() -> Message:
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        asyncio.run(app(scope, receive, send))
    except Exception:
        if not cut:
            raise
    start: dict[str, Any] = next((dict(m) for m in sent if m["type"] == "http.response.start"), {"status": 0})
    return Answer(start["status"], b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body"))
