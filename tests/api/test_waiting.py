"""What is answered while a server cannot begin: why, to those whom it would let in; and it can be told to end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stoker.api.audit import Audit
from stoker.api.auth import Tokens, allowed_hosts, read_or_make_tokens
from stoker.api.waiting import Waiting, answer_meanwhile
from stoker.clock import SystemClock
from stoker.core.errors import NotYet


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return read_or_make_tokens(tmp_path, SystemClock())


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def waiting(tmp_path: Path, listening: socket.socket, tokens: Tokens, ended: list[str]) -> Iterator[Waiting]:
    hosts = allowed_hosts("127.0.0.1", listening.getsockname()[1])
    made = answer_meanwhile(
        listening,
        tokens,
        hosts,
        needs_token=True,
        audit=Audit(tmp_path / "audit.log"),
        end=lambda: ended.append("told"),
    )
    assert made.tell(NotYet("the database is away", fix="look after it"))
    yield made
    made.close()


@pytest.fixture
def http(listening: socket.socket, tokens: Tokens, waiting: Waiting) -> Iterator[httpx.Client]:
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {tokens.token}"}, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("path", ["/stoker/v1/status", "/v1/projects/p/jobs", "/nothing", "/storage/v1/b"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_every_question_is_answered_with_what_it_waits_for(http: httpx.Client, method: str, path: str) -> None:
    answer = http.request(method, path)
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    error = answer.json()["error"]
    assert error["status"] == "UNAVAILABLE" and error["message"] == "this server waits: the database is away"
    assert error["hint"] == "look after it"


def test_nothing_is_told_to_strangers(http: httpx.Client, ended: list[str]) -> None:
    for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": ""}):
        answer = http.post("/stoker/v1/shutdown", headers=headers)
        assert answer.status_code == 401 and "database" not in answer.text
    assert http.get("/stoker/v1/status", headers={"Host": "evil.example"}).status_code == 421
    assert not ended


def test_it_can_be_told_to_end(http: httpx.Client, ended: list[str]) -> None:
    assert http.post("/stoker/v1/shutdown").json() == {"running": []} and ended == ["told"]


def test_what_it_waits_for_may_change_and_the_socket_outlives_it(
    http: httpx.Client, waiting: Waiting, listening: socket.socket
) -> None:
    assert not waiting.tell(NotYet("the database is away")), "no news"
    assert waiting.tell(NotYet("the disk is full"))
    assert http.get("/x").json()["error"]["message"] == "this server waits: the disk is full"
    waiting.close()
    with socket.create_connection(listening.getsockname(), timeout=5.0):
        listening.settimeout(5.0)
        listening.accept()[0].close()
