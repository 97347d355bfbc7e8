"""The client: one request a method, the server's errors come back, and a stream that is cut goes on."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.client.client import Client
from stoker.client.transport import RECONNECT_SECONDS
from stoker.core import errors as e

Handler = Callable[[httpx.Request], httpx.Response]
URL = "http://127.0.0.1:7077"
TOKEN = "canary-3f2a9c"


def a_client(handler: Handler, token: str = TOKEN, *, pauses: list[float] | None = None) -> Client:
    """A client whose server is this function. What it would have waited is added to the pauses."""
    return Client(
        URL, token, transport=httpx.MockTransport(handler), pause=(pauses if pauses is not None else []).append
    )


def refusal(status: int, name: str, message: str = "no", **more: Any) -> Handler:
    """A server that refuses everything."""
    return lambda _: httpx.Response(
        status, json={"error": {"code": status, "message": message, "status": name, **more}}
    )


def never(request: httpx.Request) -> httpx.Response:
    """A server that must not be asked."""
    raise AssertionError(request)


def test_it_shows_its_token_in_a_header_and_nowhere_else() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    client = a_client(handler)
    client.status()
    client.jobs("p")
    client.cancel("p", "j")
    assert [r.headers["Authorization"] for r in seen] == [f"Bearer {TOKEN}"] * 3
    assert not any(TOKEN in str(r.url) or TOKEN.encode() in r.content for r in seen)


def test_without_a_token_it_shows_none() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert "Authorization" not in request.headers
        return httpx.Response(200, json={})

    a_client(handler, "").status()


@pytest.mark.parametrize("token", ["wröng", "a\nb", "a\x00b", "\x1b[31m"])
def test_what_is_no_token_is_not_sent_and_not_quoted(token: str) -> None:
    with pytest.raises(e.Unauthenticated) as refused:
        a_client(never, token)
    assert token not in str(refused.value)


def test_a_newline_at_its_end_is_not_part_of_a_token() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        return httpx.Response(200, json={})

    a_client(handler, f"{TOKEN}\n").status()


@pytest.mark.parametrize("url", ["", "nonsense", "127.0.0.1:7077", "ftp://x", "http://", "file:///etc/passwd"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(e.BadSpec) as refused:
        Client(url)
    assert refused.value.violations[0].field == "url"


# Each method is one request.


@pytest.mark.parametrize(
    ("call", "method", "target", "body"),
    [
        (lambda c: c.status(), "GET", "/stoker/v1/status", None),
        (lambda c: c.shutdown(), "POST", "/stoker/v1/shutdown", None),
        (lambda c: c.nodes(), "GET", "/stoker/v1/nodes", None),
        (lambda c: c.submit("p", {"jobId": "j"}), "POST", "/v1/projects/p/jobs", {"jobId": "j"}),
        (
            lambda c: c.submit("p", {"jobId": "j"}, rehearse=True),
            "POST",
            "/stoker/v1/projects/p/jobs:rehearse",
            {"jobId": "j"},
        ),
        (lambda c: c.run("p", {"name": "j"}), "POST", "/stoker/v1/projects/p/jobs:run", {"name": "j"}),
        (lambda c: c.job("p", "j"), "GET", "/v1/projects/p/jobs/j", None),
        (lambda c: c.details("p", "j"), "GET", "/stoker/v1/projects/p/jobs/j", None),
        (lambda c: c.jobs("p", 7), "GET", "/stoker/v1/projects/p/jobs?limit=7", None),
        (lambda c: c.explain("p", "j"), "GET", "/stoker/v1/projects/p/jobs/j/explain", None),
        (lambda c: c.metrics("p", "j"), "GET", "/stoker/v1/projects/p/jobs/j/metrics", None),
        (lambda c: list(c.artifacts("p", "j")), "GET", "/stoker/v1/projects/p/jobs/j/artifacts?limit=1000", None),
        (lambda c: c.settings(), "GET", "/stoker/v1/settings", None),
        (lambda c: c.live_jobs(), "GET", "/stoker/v1/jobs", None),
        (lambda c: list(c.story("p", "j")), "GET", "/stoker/v1/projects/p/jobs/j/story?limit=1000", None),
        (lambda c: c.cancel("p", "j"), "POST", "/v1/projects/p/jobs/j:cancel", {}),
        (
            lambda c: c.relabel("p", "j", {"a": "b"}),
            "PATCH",
            "/v1/projects/p/jobs/j?updateMask=labels",
            {"labels": {"a": "b"}},
        ),
        (lambda c: c.exists("gs://b/a b%/ü?#"), "HEAD", "/stoker/v1/files/gs/b/a%20b%25/%C3%BC%3F%23", None),
        (lambda c: c.download("gs://b/x"), "GET", "/stoker/v1/files/gs/b/x", None),
    ],
)
def test_each_method_is_one_request(call: Callable[[Client], Any], method: str, target: str, body: Any) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    call(a_client(handler))
    assert [(r.method, r.url.raw_path.decode()) for r in seen] == [(method, target)]
    assert (json.loads(seen[0].content) if seen[0].content else None) == body


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "1st", "x" * 129, "j:cancel", "é", "a\n"])
def test_a_name_that_no_job_can_have_is_not_asked_for(name: str) -> None:
    for call in (Client.job, Client.details, Client.cancel, Client.story):
        with pytest.raises(e.NotFound):
            call(a_client(never), "p", name)
    with pytest.raises(e.NotFound):
        list(a_client(never).stream("p", name))


@pytest.mark.parametrize("project", ["", "..", "a/b", "-p", "p q"])
def test_what_is_no_project_is_not_asked_for(project: str) -> None:
    with pytest.raises(e.BadSpec):
        a_client(never).jobs(project)


@pytest.mark.parametrize("uri", ["gs://b/../x", "gs://../b/x", "gs://b/a/.."])
def test_a_uri_that_leads_out_of_its_bucket_is_not_asked_for(uri: str) -> None:
    with pytest.raises(e.BadSpec):
        a_client(never).exists(uri)


# Errors come back as they were raised.


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (401, "UNAUTHENTICATED", e.Unauthenticated),
        (403, "PERMISSION_DENIED", e.Forbidden),
        (404, "NOT_FOUND", e.NotFound),
        (409, "ALREADY_EXISTS", e.AlreadyExists),
        (409, "ABORTED", e.Conflict),
        (413, "OUT_OF_RANGE", e.TooLarge),
        (501, "UNIMPLEMENTED", e.Unimplemented),
        (503, "UNAVAILABLE", e.Unavailable),
        (500, "INTERNAL", e.StokerError),
        (418, "TEAPOT", e.StokerError),
    ],
)
def test_a_refusal_is_raised_as_what_it_was(status: int, name: str, kind: type[e.StokerError]) -> None:
    with pytest.raises(e.StokerError) as raised:
        a_client(refusal(status, name, "so it is", hint="do that")).status()
    assert (type(raised.value), raised.value.message, raised.value.fix) == (kind, "so it is", "do that")


def violations_of(field: str) -> list[dict[str, Any]]:
    """The details of a refusal."""
    return [{"@type": "x", "fieldViolations": [{"field": field, "description": "is wrong"}]}]


def test_violations_come_back_too() -> None:
    for name, kind in (("INVALID_ARGUMENT", e.BadSpec), ("FAILED_PRECONDITION", e.NotReady)):
        with pytest.raises(kind) as raised:
            a_client(refusal(400, name, "Field: region Error: is wrong", details=violations_of("region"))).status()
        assert raised.value.violations == (e.Violation("region", "is wrong"),)


def test_a_field_does_not_make_another_error_of_it() -> None:
    with pytest.raises(e.AlreadyExists) as raised:
        a_client(refusal(409, "ALREADY_EXISTS", "Field: x Error: is wrong", details=violations_of("x"))).status()
    assert raised.value.message == "is wrong"


@pytest.mark.parametrize("status", [401, 403, 404, 413, 400, 500, 502])
def test_an_error_without_a_body_is_told_by_its_status(status: int) -> None:
    kinds = {401: e.Unauthenticated, 403: e.Forbidden, 404: e.NotFound, 413: e.TooLarge}
    with pytest.raises(kinds.get(status, e.Unavailable)):
        a_client(lambda _: httpx.Response(status)).status()


@pytest.mark.parametrize(
    "body", ["<html>", "[]", '{"error": "text"}', '{"error": {"status": 7}}', '{"error": null}', "null"]
)
def test_an_error_of_another_shape_is_an_error_too(body: str) -> None:
    with pytest.raises(e.Unavailable) as raised:
        a_client(lambda _: httpx.Response(502, text=body)).status()
    assert "502" in raised.value.message


def test_a_missing_file_is_no_error_but_a_wrong_token_is() -> None:
    assert a_client(lambda _: httpx.Response(404)).exists("gs://b/x") is False
    assert a_client(lambda _: httpx.Response(200)).exists("gs://b/x") is True
    with pytest.raises(e.Unauthenticated):
        a_client(lambda _: httpx.Response(401)).exists("gs://b/x")


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", "7", ""])
def test_what_is_no_stoker_server_is_told(body: str) -> None:
    with pytest.raises(e.Unavailable) as raised:
        a_client(lambda _: httpx.Response(200, text=body)).status()
    assert "no Stoker server" in raised.value.message
    with pytest.raises(e.Unavailable):
        a_client(lambda _: httpx.Response(200, text=body)).jobs("p")


@pytest.mark.parametrize(
    "problem", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError, httpx.DecodingError]
)
def test_a_server_that_does_not_answer_is_named_and_the_token_is_not(problem: type[httpx.RequestError]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise problem("refused")

    with pytest.raises(e.Unavailable) as raised:
        a_client(handler).status()
    assert URL in raised.value.message
    assert TOKEN not in str(raised.value) + raised.value.fix


# Upload.


def test_a_large_file_goes_in_pieces(tmp_path: Path) -> None:
    content, told = bytes(range(256)) * 12_000, list[int]()
    (tmp_path / "x").write_bytes(content)

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.read() == content
        return httpx.Response(200, json={"size": len(content)})

    a_client(handler).upload(tmp_path / "x", "gs://b/x", told.append)
    assert told == sorted(told) and told[-1] == len(content) and len(told) == 3


# Stream.


class Cut(httpx.SyncByteStream):
    """A body that breaks off."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[bytes]:
        for line in self.lines:
            yield json.dumps(line).encode() + b"\n"
        yield b'{"kind": "log", "te'
        raise httpx.RemoteProtocolError("peer closed connection")


def log(text: str, sequence: int) -> dict[str, Any]:
    """A line of output."""
    return {"kind": "log", "text": text, "sequence": sequence}


def text_of(*events: dict[str, Any] | None) -> httpx.Response:
    """A stream of these events, with the signs of life."""
    return httpx.Response(200, text="".join(json.dumps(e) + "\n" if e else "\n" for e in events))


END = {"kind": "end", "exit_code": 0}


def a_server(*answers: httpx.Response | Exception) -> tuple[Handler, list[dict[str, str]]]:
    """A server that answers so, one after the other; and what it was asked."""
    asked: list[dict[str, str]] = []
    rest = iter(answers)

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        answer = next(rest)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handler, asked


def test_a_stream_ends_with_its_job() -> None:
    handler, asked = a_server(text_of({"kind": "state"}, None, log("a", 5), None, END))
    assert list(a_client(handler).stream("p", "j", logs=False)) == [{"kind": "state"}, log("a", 5), END]
    assert asked == [{"logs": "false", "after": "0", "follow": "true"}]


def test_a_stream_that_is_cut_goes_on_where_it_was() -> None:
    down = httpx.ConnectError("refused")
    handler, asked = a_server(
        httpx.Response(200, stream=Cut(log("a", 5), log("b", 9))), down, down, text_of(log("c", 12), END)
    )
    pauses: list[float] = []
    told = list(a_client(handler, pauses=pauses).stream("p", "j"))
    assert [t.get("text", t["kind"]) for t in told] == ["a", "b", "cut", "c", "end"]
    assert [a["after"] for a in asked] == ["0", "9", "9", "9"]
    assert pauses == [0.1, 0.2, 0.4]


def test_a_stream_goes_on_at_the_server_that_leads_by_then() -> None:
    """The first one stands by after a while, or is gone; nobody leads for a moment; then another does, elsewhere."""
    asked: list[tuple[str, str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.host, request.url.params["after"], request.headers["Authorization"]))
        if len(asked) == 1:
            return httpx.Response(200, stream=Cut(log("a", 5)))
        return text_of(log("b", 9), END) if request.url.host == "b" else refusal(503, "UNAVAILABLE")(request)

    leads: Iterator[tuple[str, str] | None] = iter([None, ("http://b:2", "other")])

    def find() -> tuple[str, str]:
        if (leader := next(leads)) is None:
            raise e.Unavailable("no server runs here")
        return leader

    transport = httpx.MockTransport(handler)
    client = Client("http://a:1", "t", transport=transport, pause=lambda _: None, find=find)
    assert [t.get("text", t["kind"]) for t in client.stream("p", "j")] == ["a", "cut", "b", "end"]
    assert asked == [("a", "0", "Bearer t"), ("a", "5", "Bearer t"), ("b", "5", "Bearer other")]
    assert client.url == "http://b:2"


def test_a_server_that_ends_is_waited_for() -> None:
    handler, _ = a_server(text_of({"kind": "state"}), text_of(END))
    assert [t["kind"] for t in a_client(handler).stream("p", "j")] == ["state", "cut", "end"]


def test_a_server_that_stays_away_is_given_up() -> None:
    handler, asked = a_server(text_of({"kind": "state"}), *[httpx.ConnectError("refused")] * 100)
    pauses: list[float] = []
    told: list[str] = []
    with pytest.raises(e.Unavailable):
        told += [t["kind"] for t in a_client(handler, pauses=pauses).stream("p", "j")]
    assert RECONNECT_SECONDS <= sum(pauses) < RECONNECT_SECONDS + 3 and len(asked) < 30


def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    handler, _ = a_server(httpx.ConnectError("refused"))
    with pytest.raises(e.Unavailable):
        list(a_client(handler).stream("p", "j"))


def test_without_following_one_answer_is_all() -> None:
    handler, asked = a_server(text_of({"kind": "state"}, log("a", 5)))
    assert [t["kind"] for t in a_client(handler).stream("p", "j", follow=False)] == ["state", "log"]
    assert asked[0]["follow"] == "false"


def test_a_stream_of_a_job_that_never_was() -> None:
    with pytest.raises(e.NotFound):
        list(a_client(refusal(404, "NOT_FOUND")).stream("p", "j"))


def test_a_stream_of_something_else() -> None:
    with pytest.raises(e.Unavailable):
        list(a_client(lambda _: httpx.Response(200, text="<html>")).stream("p", "j"))


# Its connection.


class Watched(httpx.MockTransport):
    """A transport that knows whether it was closed."""

    closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


def test_a_client_that_is_forgotten_lets_go_of_its_connection() -> None:
    transports = [Watched(never), Watched(never)]
    closed, forgotten = (Client(URL, transport=transport) for transport in transports)
    closed.close()
    closed.close()
    gone = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert gone() is None and [transport.closed for transport in transports] == [True, True]


# Pages.


def test_a_list_is_asked_for_page_by_page_as_it_is_taken() -> None:
    pages = {None: {"jobs": [{"name": "c"}, {"name": "b"}], "next": 7}, "7": {"jobs": [{"name": "a"}], "next": None}}
    asked: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("before"))
        return httpx.Response(200, json=pages[asked[-1]])

    found = a_client(handler).all_jobs("p")
    assert next(found)["name"] == "c" and asked == [None]
    assert [job["name"] for job in found] == ["b", "a"] and asked == [None, "7"]


# Logs.


def test_logs_that_are_cut_go_on_where_they_were() -> None:
    handler, asked = a_server(httpx.Response(200, stream=Cut(log("a", 5), log("b", 9))), text_of(log("c", 12), END))
    told = list(a_client(handler).logs("p", "j", follow=True, replica="worker-0", after=2))
    assert [t.get("text", t["kind"]) for t in told] == ["a", "b", "cut", "c", "end"]
    assert [(a["after"], a["replica"], a["follow"]) for a in asked] == [
        ("2", "worker-0", "true"),
        ("9", "worker-0", "true"),
    ]


def test_a_silent_log_that_is_cut_is_asked_for_again() -> None:
    handler, asked = a_server(text_of(None), text_of(log("a", 5), END))
    told = [t["kind"] for t in a_client(handler).logs("p", "j", follow=True)]
    assert told == ["cut", "log", "end"] and [a["after"] for a in asked] == ["0", "0"]


def test_what_is_not_asked_for_is_not_sent() -> None:
    handler, asked = a_server(text_of(log("a", 5)))
    assert [t["kind"] for t in a_client(handler).logs("p", "j")] == ["log"]
    assert asked == [{"after": "0", "follow": "false"}]


# A stream that has an end of its own.


class Ticking:
    """A clock that goes on by a second whenever it is looked at."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    "answer",
    [
        lambda: text_of(*[None] * 50),  # it lives, and nothing happens
        lambda: text_of({"kind": "state"}),  # it ends again and again
        lambda: httpx.Response(200, stream=Cut({"kind": "state"})),
    ],
)
def test_a_stream_ends_after_its_time(answer: Callable[[], httpx.Response]) -> None:
    handler, asked = a_server(*[answer() for _ in range(50)])
    client = Client(URL, transport=httpx.MockTransport(handler), pause=lambda _: None, clock=Ticking())
    told = [t["kind"] for t in client.stream("p", "j", seconds=10)]
    assert "end" not in told and len(asked) <= 10


# Download.


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 12_000
    a_client(lambda _: httpx.Response(200, content=content)).save("gs://b/x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content


def test_a_download_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(e.NotFound):
        a_client(refusal(404, "NOT_FOUND")).save("gs://b/x", tmp_path / "x")
    with pytest.raises(e.Unavailable):
        a_client(lambda _: httpx.Response(200, stream=Cut())).save("gs://b/x", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_two_downloads_into_one_folder_do_not_meet(tmp_path: Path) -> None:
    """Not even of names that begin alike: while one of them arrives, the other one begins and ends."""
    first, second = (tmp_path / f"{'x' * 120}{n}" for n in (1, 2))

    class Slow(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"the first, "
            a_client(lambda _: httpx.Response(200, content=b"the second")).save("gs://b/2", second)
            yield b"whole"

    a_client(lambda _: httpx.Response(200, stream=Slow())).save("gs://b/1", first)
    assert (first.read_bytes(), second.read_bytes()) == (b"the first, whole", b"the second")
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_a_download_to_where_nobody_can_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "missing/x", tmp_path / "file/x", tmp_path / ("x" * 300)):
        with pytest.raises(e.BadSpec, match=r"to: .* cannot be written") as refused:
            a_client(lambda _: httpx.Response(200, content=b"x")).save("gs://b/x", path)
        assert refused.value.fix
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("body", [{"a": "\ud800"}, {"a": object()}, {"a": float("nan")}, {(1, 2): 3}])
def test_a_body_that_json_cannot_say_is_not_sent(body: dict[Any, Any]) -> None:
    with pytest.raises(e.BadSpec, match="cannot be sent as JSON"):
        a_client(never).run("p", body)


def test_an_older_servers_fix_is_a_hint() -> None:
    with pytest.raises(e.StokerError) as raised:
        a_client(refusal(404, "NOT_FOUND", fix="do that")).status()
    assert raised.value.fix == "do that"
