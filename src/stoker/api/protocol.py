"""HTTP for clients that may be slow on purpose: uvicorn's parser, with limits of size and time before anybody is let in.

The parser itself has none: a client could send a header for ever, a byte an hour, from as many connections as there are.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Mapping
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from stoker.core.errors import Unavailable

MOST_HEAD_BYTES = 64 << 10
"""Of the address and all headers; trailers behind a body count as well."""
MOST_HEADERS = 200
HEAD_SECONDS = 20.0
"""From the first byte of a request, or the connection, to the end of its headers."""
BODY_SECONDS = 30.0
LEAST_BODY_BYTES = 1024
"""In so many seconds so many bytes of a body must come, while we take them."""
MOST_WASTED_BYTES = 16 << 20
"""Of a body, after it was answered already: then the connection is cut."""
MOST_CONNECTIONS = 4096
_KEPT_DESCRIPTORS = 256  # for the database, logs, files and engines

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_INSIDES = {  # what we lean on, and no version of uvicorn promises
    HttpToolsProtocol: "connection_made connection_lost data_received on_message_begin on_url on_header on_headers_complete"
    " on_body on_message_complete send_400_response connections cycle flow loop timeout_keep_alive_task transport",
    RequestResponseCycle: "response_complete",
    FlowControl: "read_paused",
}


def check_uvicorn(insides: Mapping[type, str] = _INSIDES) -> None:
    """Raise Unavailable for a uvicorn without something that the limits below lean on: they would be none."""
    for owner, names in insides.items():
        known = set(vars(owner))
        for method in vars(owner).values():
            known.update(getattr(getattr(method, "__code__", None), "co_names", ()))
        lacking = sorted(set(names.split()) - known)
        if lacking:
            raise Unavailable(
                f"uvicorn {uvicorn.__version__} is another inside than Stoker knows: {owner.__name__} has no {lacking[0]}",
                fix="install a version that it was tested with: pip install 'uvicorn>=0.29,<0.55'",
            )


def most_connections() -> int:
    """How many there may be: fewer than this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - _KEPT_DESCRIPTORS))
    )


class PatientProtocol(HttpToolsProtocol):
    """One connection. It waits for a client, but not for ever; and when there are too many, who has asked nothing goes first."""

    silent: ClassVar[dict[PatientProtocol, None]] = {}  # of all connections of this process, the oldest first
    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS
    most_connections = staticmethod(most_connections)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = self._header_count = self._body_bytes = self._wasted_bytes = 0
        self._unheard_bytes = 0  # the parser has them, and has made nothing of them yet
        self._in_head = True
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, or make room for it."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections():
            next(iter(self.silent), self)._cut()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins: its headers are awaited."""
        super().on_message_begin()
        self._head_bytes = self._header_count = self._body_bytes = self._wasted_bytes = 0
        if not self._in_head:  # the first one of a connection is awaited since that was made
            self._in_head = True
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. A trailer behind the body is nobody's: who has looked at the headers must find them as they were."""
        self._header_count += 1
        self._count(len(name) + len(value) + 4)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Now the body is awaited."""
        self._in_head = False
        self._unheard_bytes = 0
        self._stop_waiting()
        self._await(self.body_seconds, self._look_at_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_bytes += len(body)
        self._unheard_bytes = 0
        if self.cycle.response_complete:
            self._wasted_bytes += len(body)
            if self._wasted_bytes > MOST_WASTED_BYTES:
                self._cut()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of a request has come: the answer may take its time."""
        self._unheard_bytes = 0
        self._stop_waiting()
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES or self._header_count > MOST_HEADERS:
            self._refuse()
            raise ValueError("the headers are too large")  # ends the parser

    def _refuse(self) -> None:
        self._stop_waiting()
        if self._in_head and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _look_at_body(self) -> None:
        """Whether enough of it has come. While we take none ourselves, nobody is slow but we."""
        is_slow = self._body_bytes < LEAST_BODY_BYTES and not self.flow.read_paused
        if is_slow or self.cycle.response_complete:  # what is answered already is not waited for much longer
            self._cut()
            return
        self._body_bytes = 0
        self._await(self.body_seconds, self._look_at_body)

    def _await_head(self) -> None:
        self.silent[self] = None
        self._await(self.head_seconds, self._cut)

    def _await(self, seconds: float, then: Any) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self.loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        self.silent.pop(self, None)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _cut(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes. What comes behind a head that was refused is not looked at; and bytes that begin nothing gain no time."""
        if self.transport.is_closing():
            return
        self._unheard_bytes += len(data)
        super().data_received(data)
        if self._unheard_bytes > MOST_HEAD_BYTES:  # a header, or the length of a chunk, that does not end
            self._refuse()
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._watch is None and self.timeout_keep_alive_task is None:
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused, unless it was already."""
        self._stop_waiting()
        if not self.transport.is_closing():
            super().send_400_response(msg)
