"""What only a real socket shows: how requests are told apart, and how long a client may take.

Kubeflow CVE-2026-54745 (smuggling), Ray CVE-2025-62593 (rebinding), BentoML CVE-2024-9056 (exhaustion).
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.protocol import MOST_HEAD_BYTES, MOST_HEADERS, PatientProtocol, check_uvicorn
from stoker.app import Stoker, build
from stoker.config import read_config
from stoker.core.errors import Unavailable
from stoker.gpu.drivers.fake import FakeDriver
from tests.conftest import wait_until


class HastyProtocol(PatientProtocol):
    """As the server's, with less time and room."""

    head_seconds = 0.6
    body_seconds = 0.6
    most_connections = staticmethod(lambda: 20)


@dataclass
class Served:
    """A server on a socket of its own."""

    port: int
    token: str
    protocols: list[PatientProtocol] = field(default_factory=list)

    def connect(self) -> socket.socket:
        """A connection; reading from it never takes for ever."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, request: str | bytes) -> bytes:
        """Send bytes as they stand, and read until the server closes the connection: the last request asks it to."""
        raw = request.encode("latin-1") if isinstance(request, str) else request
        raw = raw.replace(b"HOST", b"127.0.0.1:%d" % self.port).replace(b"TOKEN", self.token.encode())
        with self.connect() as connection:
            try:
                connection.sendall(raw)
            except OSError:
                pass  # it was cut off while it sent
            return read_all(connection)

    def get(self, *headers: str, line: str = "GET /stoker/v1/status HTTP/1.1") -> bytes:
        """One request with the right token and these headers."""
        return self.ask("\r\n".join([line, *headers, "Authorization: Bearer TOKEN", "Connection: close", "", ""]))


def read_all(connection: socket.socket) -> bytes:
    found = b""
    try:
        while block := connection.recv(65536):
            found += block
    except ConnectionError:
        pass
    return found


def statuses(answer: bytes) -> list[int]:
    """The statuses of all answers that came back."""
    return [int(part.split()[0]) for part in answer.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture(scope="module")
def stoker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stoker]:
    """A Stoker at rest, for all tests of this file."""
    flags = {"home": str(tmp_path_factory.mktemp("home")), "hold": True}
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    made.loop.tick()
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def served(stoker: Stoker) -> Iterator[Served]:
    """The application, served as stoker.app serves it, by a server in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app: ASGIApp = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        http=HastyProtocol,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield Served(port, stoker.tokens.token)
    server.should_exit = True
    stoker.services.notifier.closed = True
    thread.join(10)
    listening.close()
    assert not HastyProtocol.silent, "a connection that is gone is still counted"


# Names (DNS rebinding).


def test_the_right_name_is_answered(served: Served) -> None:
    for host in (
        f"127.0.0.1:{served.port}",
        f"localhost:{served.port}",
        f"[::1]:{served.port}",
        f"LocalHost:{served.port}",
    ):
        assert statuses(served.get(f"Host: {host}")) == [200], host


ODD_HOSTS = [
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1.evil.example:PORT",
    "127.0.0.1:PORT.evil.example",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:0",
    "127.0.0.1:PORT:PORT",
    "localhost.:PORT",
    "user@127.0.0.1:PORT",
    "127.0.0.1:PORT@evil.example",
    "127.1:PORT",
    "2130706433:PORT",
    "0x7f.0.0.1:PORT",
    "0.0.0.0:PORT",
    "[::]:PORT",
    "::1:PORT",
    "[::1%25lo]:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[0:0:0:0:0:0:0:1]:PORT",
    "127.0.0.1:PORT, evil.example",
    "127.0.0.1:PORT evil.example",
    "169.254.169.254",
    "",
    " ",
    "\xe4",
]


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_another_name_is_not(served: Served, host: str) -> None:
    assert statuses(served.get(f"Host: {host}".replace("PORT", str(served.port)))) in ([421], [400])


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Host: HOST", "Host: evil.example"),
        ("Host: evil.example", "Host: HOST"),
        ("Host: HOST", "Host: HOST"),
        ("X-Forwarded-Host: HOST", "Host: evil.example"),
        ("Forwarded: host=HOST", "Host: evil.example"),
        ("Host : HOST",),
        (" Host: HOST",),
        ("Host: evil.example\r\n HOST",),
        ("Host: HOST\r\n .evil.example",),
    ],
)
def test_no_name_two_names_and_folded_names_are_refused(served: Served, headers: tuple[str, ...]) -> None:
    assert statuses(served.get(*headers)) in ([421], [400])


def test_the_name_in_an_absolute_target_counts_for_nothing(served: Served) -> None:
    target = "http://{}/stoker/v1/status"
    evil = served.get("Host: evil.example", line=f"GET {target.format(f'127.0.0.1:{served.port}')} HTTP/1.1")
    assert statuses(evil) == [421]
    fine = served.get(f"Host: 127.0.0.1:{served.port}", line=f"GET {target.format('evil.example')} HTTP/1.1")
    assert statuses(fine) == [200]


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/9.9", ""])
def test_other_versions_need_a_name_as_well(served: Served, version: str) -> None:
    assert set(statuses(served.get(line=f"GET /stoker/v1/status {version}"))) <= {400, 421}


FORGED = [
    "Origin: http://evil.example",
    "Origin: null",
    "Origin: file://",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
]
FORGED += [
    "Origin: http://HOST\r\nOrigin: http://evil.example",
    "Origin: ftp://HOST",
    "Origin: http://HOST.evil.example",
]
FORGED += [
    "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: Cross-Site",
    "Sec-Fetch-Site: ",
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_another_sites_page_may_use_no_method(served: Served, method: str) -> None:
    """Ray CVE-2026-27482: DELETE was not covered. JupyterHub CVE-2026-40864: Sec-Fetch-Mode was believed."""
    for forged in FORGED:
        headers = ("Host: HOST", forged, "Sec-Fetch-Mode: no-cors", "Content-Length: 0", "User-Agent: curl/8")
        assert statuses(served.get(*headers, line=f"{method} /stoker/v1/shutdown HTTP/1.1")) == [403], forged


# Where a request ends (smuggling).

SMUGGLED = "GET /stoker/v1/status HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n"
POST = "POST /v1/projects/p/jobs HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
AMBIGUOUS = {
    "both": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, the other way round": "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": "Content-Length: 2\r\nContent-Length: 80\r\n\r\n{}",
    "the same length twice": "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": "Content-Length: 2, 80\r\n\r\n{}",
    "a signed length": "Content-Length: +2\r\n\r\n{}",
    "a negative length": "Content-Length: -2\r\n\r\n{}",
    "a length in hex": "Content-Length: 0x2\r\n\r\n{}",
    "a length beyond all bounds": "Content-Length: 99999999999999999999999\r\n\r\n{}",
    "a space before the colon": "Content-Length : 2\r\n\r\n{}",
    "another coding": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, and then another": "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a vertical tab": "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a bare CR": "X: a\rContent-Length: 80\r\nContent-Length: 2\r\n\r\n{}",
    "NUL": "X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk's length that is none": "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk's length beyond all bounds": "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "a chunk that is longer than it says": "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "a folded header": "X: a\r\n Content-Length: 80\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_whose_end_is_unclear_is_the_last(served: Served, ambiguous: str) -> None:
    """What comes behind it is never answered as a request of its own."""
    assert 200 not in statuses(served.ask(POST + "Authorization: Bearer TOKEN\r\n" + ambiguous + SMUGGLED))


def test_two_requests_whose_ends_are_clear_are_two(served: Served) -> None:
    """Else the tests above would prove nothing."""
    assert statuses(served.ask(POST + "Content-Length: 2\r\n\r\n{}" + SMUGGLED)) == [401, 200]
    assert statuses(served.ask(POST + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + SMUGGLED)) == [
        401,
        200,
    ]


def test_two_tokens_are_none(served: Served) -> None:
    assert statuses(served.get("Host: HOST", "Authorization: Bearer wrong")) == [401]


def test_a_header_behind_the_body_is_nobodys(served: Served) -> None:
    """Who has looked at the headers, and let the request in, must find them as they were."""
    trailers = "2\r\n{}\r\n0\r\nAuthorization: Bearer TOKEN\r\nHost: evil.example\r\n\r\n"
    assert statuses(served.ask(POST + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + trailers)) == [401]


def test_an_upgrade_is_none_and_needs_the_token(served: Served) -> None:
    upgrade = (
        "Host: HOST",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    lines = ["GET /stoker/v1/projects/p/jobs/j/stream HTTP/1.1", *upgrade, "Connection: Upgrade", "", ""]
    for extra in ("", SMUGGLED):
        found = statuses(served.ask("\r\n".join(lines) + extra))
        assert found[:1] == [401] and 101 not in found and 200 not in found
    for first in (
        "CONNECT 169.254.169.254:80 HTTP/1.1",
        "PRI * HTTP/2.0",
        "OPTIONS * HTTP/1.1",
        "GET http://x HTTP/1.1",
    ):
        assert 200 not in statuses(served.ask(f"{first}\r\nHost: HOST\r\n\r\n{SMUGGLED}"))[:1], first


# How much, and how long.


@pytest.mark.parametrize(
    "head",
    [
        "GET /" + "a" * MOST_HEAD_BYTES + " HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n" + "X: y\r\n" * (MOST_HEADERS + 2),
        "GET / HTTP/1.1\r\nX: " + "a" * MOST_HEAD_BYTES + "\r\n",
        "GET / HTTP/1.1\r\n" + "a" * MOST_HEAD_BYTES + ": x\r\n",
    ],
    ids=["address", "number", "value", "name"],
)
def test_a_head_without_end_is_refused(served: Served, head: str) -> None:
    """While it comes, without waiting for its end, nor for its time to be up."""
    started = time.monotonic()
    with served.connect() as connection:
        with suppress(OSError):
            connection.sendall(head.encode())
        assert set(statuses(read_all(connection))) <= {431}  # it may be cut off before it gets to read why
    assert time.monotonic() - started < HastyProtocol.head_seconds


def test_trailers_without_end_are_cut_off(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall((POST + "Transfer-Encoding: chunked\r\n\r\n0\r\n").replace("HOST", "x").encode())
        assert b" 4" in connection.recv(100)
        try:
            for _ in range(2 * MOST_HEADERS):
                connection.sendall(b"X: " + b"y" * 1000 + b"\r\n")
        except OSError:
            pass
        read_all(connection)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"\r\n",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/projects/p/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
    ids=["nothing", "an empty line", "a line", "headers", "a body", "chunks"],
)
def test_who_begins_and_does_not_go_on_is_cut_off(served: Served, begun: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(begun)
        read_all(connection)  # ends, for the server has closed it; the connection's own time limit is ten seconds


def dribble(connection: socket.socket, first: bytes, drop: bytes) -> bool:
    """Send a drop every now and then for ten times as long as is allowed: whether the server bore with it."""
    connection.sendall(first)
    connection.settimeout(0.05)
    for _ in range(60):
        try:
            connection.sendall(drop)
            if not connection.recv(65536):
                return False
        except TimeoutError:
            continue
        except ConnectionError:
            return False
    return True


def test_drops_of_a_head_or_a_body_buy_no_time(served: Served) -> None:
    """Slowloris: a byte now and then was enough to keep a connection for ever."""
    allowed = f"Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.token}\r\n"
    for first, drop in (
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n"),
        (b"", b"\r\n"),
        (f"POST /v1/projects/p/jobs HTTP/1.1\r\n{allowed}Content-Length: 100000\r\n\r\n".encode(), b"{"),
        (f"POST /v1/projects/p/jobs HTTP/1.1\r\n{allowed}Transfer-Encoding: chunked\r\n\r\n".encode(), b"1\r\n{\r\n"),
    ):
        with served.connect() as connection:
            assert not dribble(connection, first, drop), first


def test_a_body_that_comes_slowly_but_comes_is_awaited(served: Served) -> None:
    """An upload over a thin line is no attack: what counts is that enough comes in each span of time."""
    path = "/stoker/v1/files/gs/some-bucket/slow"
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.token}\r\n"
    with served.connect() as connection:
        connection.sendall(f"{head}Connection: close\r\nContent-Length: 20000\r\n\r\n".encode())
        spans = threading.Event()
        for _ in range(20):
            connection.sendall(b"x" * 1000)
            spans.wait(0.05)
        assert statuses(read_all(connection)) == [200]


def test_an_answer_may_take_its_time(served: Served) -> None:
    """A stream that is followed says nothing for long: the client has asked in full, and waits."""
    body = '{"name": "waits", "command": ["true"]}'
    post = "POST /stoker/v1/projects/p/jobs:run HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n"
    assert statuses(served.ask(f"{post}Content-Length: {len(body)}\r\n\r\n{body}")) == [200]
    with served.connect() as connection:
        get = "GET /stoker/v1/projects/p/jobs/waits/stream HTTP/1.1\r\n"
        connection.sendall(
            f"{get}Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode()
        )
        connection.settimeout(1.5)  # longer than a head or a body may take
        heard = b""
        with pytest.raises(TimeoutError):
            while True:
                block = connection.recv(65536)
                assert block, "it was cut off"
                heard += block
        assert b'"QUEUED"' in heard


def test_whoever_has_asked_nothing_makes_room(served: Served) -> None:
    """As many connections as there may be, all silent: the next one is answered, and the oldest is gone."""
    silent = [served.connect() for _ in range(25)]
    try:
        assert statuses(served.get("Host: HOST")) == [200]
        silent[0].settimeout(10)
        assert read_all(silent[0]) == b""
    finally:
        for connection in silent:
            connection.close()


def test_a_body_that_nobody_wants_is_not_taken_for_ever(served: Served) -> None:
    """Refused at its head, it may go on for a while, so that the client gets to read why; then it is cut off."""
    sent: Any = 0
    with served.connect() as connection:
        connection.sendall(b"PUT /stoker/v1/files/gs/b/x HTTP/1.1\r\nHost: x\r\nContent-Length: 68719476736\r\n\r\n")
        try:
            while sent < 256 << 20:
                sent += connection.send(b"x" * (1 << 20))
        except OSError:
            pass
    assert sent < 64 << 20


def test_a_uvicorn_that_is_another_inside_is_refused_with_what_to_install() -> None:
    check_uvicorn()
    with pytest.raises(Unavailable) as refused:
        check_uvicorn({PatientProtocol: "on_header on_something_else"})
    assert "on_something_else" in refused.value.message and "pip install 'uvicorn" in refused.value.fix
