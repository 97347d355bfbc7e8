"""Several calls in one request, as `with client.batch():` of google-cloud-storage, gcsfs and the Hadoop connector send them.

Each part is an HTTP request, and is answered as if it had come alone. Bytes of objects are not carried this way.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Message as Event

from stoker.api.errors import error_response
from stoker.api.pools import Route, in_thread
from stoker.api.services import read_body
from stoker.core.errors import BadSpec, Unimplemented, Violation

MOST_CALLS = 100
LARGEST_BATCH_BYTES = 2 << 20
_OPEN = "/storage/v1/"
_SAME = ("type", "asgi", "http_version", "scheme", "client", "server", "state")  # for all calls of a batch

router = APIRouter(route_class=Route)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a batch."""

    id: str
    method: str
    url: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@router.post("/batch/storage/v1")
async def batch(request: Request) -> Response:
    """Make the calls, one after the other."""
    body, kind = await read_body(request, LARGEST_BATCH_BYTES), request.headers.get("content-type", "")
    calls = await in_thread(lambda: list(_read(kind, body)))  # others are answered meanwhile
    boundary = f"batch_{secrets.token_hex(16)}"
    answers = [_part(call, await _answer(request, call), boundary) for call in calls]
    return Response(
        b"".join([*answers, f"--{boundary}--\r\n".encode()]), media_type=f"multipart/mixed; boundary={boundary}"
    )


def _read(content_type: str, content: bytes) -> Iterable[Call]:
    """The calls in a body. Raises BadSpec."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    parts = BytesParser().parsebytes(head + content).get_payload()
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_CALLS:
        raise BadSpec([Violation("body", f"multipart/mixed with 1 to {MOST_CALLS} calls is needed")])
    for part in parts:
        assert isinstance(part, Message)
        yield _call(part)


def _call(part: Message) -> Call:
    raw = part.get_payload(decode=True)
    line, _, rest = (raw if isinstance(raw, bytes) else b"").lstrip().partition(b"\n")
    words = line.decode("latin-1").split()
    if len(words) < 2:
        raise BadSpec([Violation("body", "each part of a batch begins with a line like DELETE /storage/v1/b/B/o/NAME")])
    inner = BytesParser().parsebytes(rest)
    body = inner.get_payload(decode=True)
    return Call(
        id=_plain(part.get("Content-ID", "")).strip("<> \t"),
        method=words[0].upper(),
        url=words[1],
        headers=tuple(
            (name.lower().encode("latin-1", "replace"), str(text).encode("latin-1", "replace"))
            for name, text in inner.items()
        ),
        body=body if isinstance(body, bytes) else b"",
    )


def _plain(header: object) -> str:
    """A header in ASCII and on one line: it goes back into the answer. One that is neither is not text to the parser."""
    return " ".join(str(header).encode("ascii", "replace").decode().split())


async def _answer(request: Request, call: Call) -> Response:
    """What the application answers to one call. Who has sent the batch may make it: the guard has let it in."""
    try:
        url = urlsplit(call.url)
    except ValueError as error:
        return error_response(BadSpec([Violation("body", f"{call.url[:80]!r} is not an address: {error}")]))
    if not url.path.startswith(_OPEN) or "media" in parse_qs(url.query).get("alt", ()):
        return error_response(Unimplemented(f"{call.method} {call.url[:80]} as a part of a batch"))
    kept = [(name, text) for name, text in call.headers if name not in (b"host", b"authorization", b"content-length")]
    scope = {
        **{name: request.scope[name] for name in _SAME if name in request.scope},
        "root_path": "",
        "method": call.method,
        "path": unquote(url.path),
        "raw_path": url.path.encode("latin-1", "replace"),
        "query_string": url.query.encode("latin-1", "replace"),
        "headers": [
            *kept,
            (b"host", request.headers["host"].encode()),
            (b"content-length", str(len(call.body)).encode()),
        ],
    }
    sent: list[Event] = []
    received: list[Event] = [{"type": "http.request", "body": call.body, "more_body": False}]

    async def receive() -> Event:
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(event: Event) -> None:
        sent.append(event)

    await request.app(scope, receive, send)
    answer = Response(b"".join(event.get("body", b"") for event in sent), sent[0]["status"])
    answer.raw_headers = list(sent[0]["headers"])
    return answer


def _part(call: Call, answer: Response, boundary: str) -> bytes:
    phrase = HTTPStatus(answer.status_code).phrase
    head = [f"--{boundary}", "Content-Type: application/http"]
    head += [f"Content-ID: <response-{call.id}>"] if call.id else []
    head += ["", f"HTTP/1.1 {answer.status_code} {phrase}"]
    headers = [name + b": " + text for name, text in answer.raw_headers]
    return b"\r\n".join([*(line.encode("latin-1") for line in head), *headers, b"", bytes(answer.body), b""])
