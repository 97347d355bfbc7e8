"""Every route of the application, from its own table, so that a route which is added later is tested too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp

from stoker.api.app import make_app, routes
from stoker.api.auth import Guard, allowed_hosts
from stoker.api.rate_limits import WrongTokens
from stoker.app import Stoker

BASE = "http://127.0.0.1:7077"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "PoSt", "PROPFIND")
PARTS = {
    "project": "p",
    "name": "waits",
    "number": "waits.1",
    "replica": "chief-0",
    "file": "0",
    "folder": "0",
    "scheme": "gs",
    "bucket": "some-bucket",
    "rest": "a/b",
    "location": "us-central1",
    "job": "waits",
    "project_verb": "p:getConfig",
    "verb": "waits:cancel",
}


@dataclass(frozen=True)
class Door:
    """A path of the route table, and the methods that it takes."""

    path: str
    methods: frozenset[str]

    def at(self, **parts: str) -> str:
        """The path with its parameters filled in; what is not given, as in PARTS."""
        filled = {**PARTS, **parts}
        return re.sub(r"\{(\w+)(?::\w+)?\}", lambda part: filled.get(part[1], "x"), self.path)

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters."""
        return re.findall(r"\{(\w+)", self.path)


def doors(stoker: Stoker) -> list[Door]:
    """The table."""
    found: dict[str, set[str]] = {}
    for route in iter_route_contexts(routes(stoker.services).routes):
        assert route.path is not None
        found.setdefault(route.path, set()).update(route.methods or {"GET"})
    assert len(found) > 60, "the table has moved: these tests would prove nothing"
    return [Door(path, frozenset(methods)) for path, methods in sorted(found.items())]


def patient(stoker: Stoker, **how: Any) -> ASGIApp:
    """The application behind its guard, which does not grow tired of wrong tokens."""
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077), **how)
    assert isinstance(app, Guard)
    app.wrong_tokens = WrongTokens(free=1 << 30)
    return app


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


A_BODY = b'{"name": "x", "command": ["true"]}'


def ask_all(
    app: ASGIApp, asked: Sequence[tuple[str, str, Mapping[str, str]]], content: bytes = A_BODY
) -> list[tuple[int, str]]:
    """Status and body of many requests (method, path with its query, headers), sent to the application as they stand."""

    async def ask(method: str, address: str, headers: Mapping[str, str]) -> tuple[int, str]:
        path, _, query = address.partition("?")
        told = {"host": "127.0.0.1:7077", "content-type": "application/json"}
        told |= {name.lower(): text for name, text in headers.items()}
        raw = [(name.encode(), text.encode("latin-1")) for name, text in told.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "headers": raw,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7077),
        }
        sent: list[Any] = []
        coming: list[Any] = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            return coming.pop() if coming else await asyncio.Event().wait()  # the client stays

        async def send(event: Any) -> None:
            sent.append(event)

        await app(scope, receive, send)
        return sent[0]["status"], b"".join(event.get("body", b"") for event in sent).decode(errors="replace")

    async def all_of_them() -> list[tuple[int, str]]:
        return [await ask(*one) for one in asked]

    return asyncio.run(all_of_them())
