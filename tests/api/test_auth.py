"""Nothing is reached without the right token, whatever the route and the method; and from no other site's page."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import stat
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from stoker.api.app import make_app, routes
from stoker.api.auth import Tokens, allowed_hosts, own_names, read_or_make_tokens, user_name
from stoker.app import Stoker
from stoker.clock import ManualClock

BASE = "http://127.0.0.1:7077"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
PARTS = {
    "{project}": "p",
    "{name}": "j",
    "{number}": "j.1",
    "{replica}": "chief-0",
    "{file}": "0",
    "{scheme}": "gs",
    "{bucket}": "some-bucket",
    "{verb}": "j:cancel",
    "{node}": "n",
}


@pytest.fixture
def app(stoker: Stoker) -> ASGIApp:
    """The application behind its guard."""
    return make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))


def every_path(stoker: Stoker) -> list[str]:
    """Every path of the route table, its parameters filled in, and some that are not in it."""
    paths = ["/", "/v1", "/stoker", "/stoker/replica/v1/", "/docs", "/favicon.ico", "/stoker/v1/openapi.json"]
    for path in routes(stoker.services).openapi()["paths"]:
        for part, value in PARTS.items():
            path = path.replace(part, value)
        paths.append(path)
    return paths


def test_the_route_table_is_what_we_think_it_is(stoker: Stoker) -> None:
    assert len(set(every_path(stoker))) > 20
    assert not [path for path in every_path(stoker) if "{" in path]


def test_every_route_and_method_refuses_without_a_token(stoker: Stoker, app: ASGIApp) -> None:
    with TestClient(app, BASE) as client:
        for path in every_path(stoker):
            for method in METHODS:
                answer = client.request(method, path)
                assert answer.status_code == 401, (method, path)
                assert answer.headers["WWW-Authenticate"] == "Bearer"
                if method != "HEAD":
                    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"


def test_a_wrong_token_is_none(stoker: Stoker, app: ASGIApp) -> None:
    right = stoker.tokens.token
    with TestClient(app, BASE) as client:
        for shown in ("", "Bearer", "Bearer ", "Bearer wrong", f"Basic {right}", right, f"Bearer {right}x", "Bearer ü"):
            header = {"Authorization": shown.encode()}
            assert client.get("/stoker/v1/status", headers=header).status_code == 401, shown
        assert client.get("/stoker/v1/status", headers={"Authorization": f"bearer  {right} "}).status_code == 200


def test_a_token_in_the_address_is_not_looked_at(stoker: Stoker, app: ASGIApp) -> None:
    with TestClient(app, BASE) as client:
        for name in ("access_token", "token", "key", "oauth_token"):
            assert client.get(f"/stoker/v1/status?{name}={stoker.tokens.token}").status_code == 401


def test_an_attempts_token_opens_its_own_attempts_routes_only(stoker: Stoker, app: ASGIApp) -> None:
    headers = {"Authorization": f"Bearer {stoker.tokens.of_attempt('p/j.1')}"}
    own = "/stoker/replica/v1/p/j.1/chief-0/lines"
    with TestClient(app, BASE, headers=headers) as client:
        assert client.post(own, json={}).status_code == 404  # it was let in; there is no such attempt
        for path in every_path(stoker):
            if not path.startswith("/stoker/replica/v1/p/j.1/"):
                assert client.get(path).status_code == 401, path
        for other in ("p/j.2", "p/j.11", "q/j.1", "p/j", "p//j.1"):
            assert client.post(own.replace("p/j.1", other), json={}).status_code == 401, other


def test_the_servers_token_does_not_open_an_attempts_routes(http: TestClient) -> None:
    assert http.post("/stoker/replica/v1/p/j.1/chief-0/report", json={"seen": "UP"}).status_code == 401


def test_a_job_of_another_server_shows_no_token_of_ours(tmp_path: Path) -> None:
    one, other = (read_or_make_tokens(made(tmp_path / name), ManualClock()) for name in "ab")
    assert one.is_attempt("p/j.1", one.of_attempt("p/j.1"))
    assert not one.is_attempt("p/j.1", other.of_attempt("p/j.1"))


def test_a_websocket_is_closed_unless_it_shows_the_token(stoker: Stoker, app: ASGIApp) -> None:
    with TestClient(app, BASE) as client:
        with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/stoker/v1/status"):
            raise AssertionError
        assert closed.value.code == 1008


def test_another_host_is_misdirected(http: TestClient) -> None:
    for host in ("evil.example:7077", "127.0.0.1:80", "127.0.0.1", "localhost", "127.0.0.1.nip.io:7077", ""):
        assert http.get("/stoker/v1/status", headers={"Host": host}).status_code == 421, host
    for host in ("127.0.0.1:7077", "localhost:7077", "LOCALHOST:7077", "[::1]:7077"):
        assert http.get("/stoker/v1/status", headers={"Host": host}).status_code == 200, host


def test_a_request_from_another_sites_page_is_refused(http: TestClient) -> None:
    for header in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:7078"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        for method in METHODS:
            answer = http.request(method, "/stoker/v1/status", headers=header)
            assert answer.status_code == 403, (method, header)


def test_our_own_pages_may_ask(http: TestClient) -> None:
    header = {"Origin": "http://localhost:7077", "Sec-Fetch-Site": "same-origin"}
    assert http.get("/stoker/v1/status", headers=header).status_code == 200


def test_without_auth_no_token_is_needed_but_by_replicas(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077), needs_token=False)
    with TestClient(app, BASE) as client:
        assert client.get("/stoker/v1/status").status_code == 200
        assert client.post("/stoker/replica/v1/p/j.1/chief-0/lines", json={}).status_code == 401
        assert client.get("/stoker/v1/status", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/stoker/v1/status", headers={"Origin": "http://evil.example"}).status_code == 403


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def tokens_of(home: Path) -> Tokens:
    return read_or_make_tokens(home, ManualClock())


def test_the_token_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    found = tokens_of(tmp_path)
    assert len(found.token) >= 43
    assert tokens_of(tmp_path).token == found.token
    assert tokens_of(tmp_path).of_attempt("p/j.1") == found.of_attempt("p/j.1")
    assert {path.name for path in tmp_path.iterdir()} == {"token", "replica.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_the_server_holds_no_token_in_memory(tmp_path: Path) -> None:
    """What it has is a hash, and a key of which the token is no part."""
    found = tokens_of(tmp_path)
    held = [getattr(found, name) for name in found.__slots__]
    assert found.is_home(found.token) and not any(found.token in str(value) for value in held)
    assert found.token not in repr(found) and found.sha256 not in repr(found)


def test_a_token_that_others_can_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a" * 43 + "\n")
    path.chmod(0o644)
    assert tokens_of(tmp_path).token == "a" * 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("left", ["", "\n", "short"])
def test_a_token_that_a_crash_cut_off_is_made_anew(tmp_path: Path, left: str) -> None:
    path = tmp_path / "token"
    path.write_text(left)
    assert len(tokens_of(tmp_path).token) >= 43


def test_replicas_that_an_older_server_has_started_are_still_known(tmp_path: Path) -> None:
    """Their tokens were derived from the home's own, which had no key beside it."""
    (tmp_path / "token").write_text("a" * 43)
    old = hmac.new(b"a" * 43, b"attempt p/j.1", hashlib.sha256).hexdigest()
    assert tokens_of(tmp_path).is_attempt("p/j.1", old)


def test_no_token_opens_nothing(tmp_path: Path) -> None:
    assert not tokens_of(tmp_path).is_home("")


def test_on_every_address_this_machines_names_are_accepted() -> None:
    everywhere = allowed_hosts("0.0.0.0", 7077)
    assert everywhere > allowed_hosts("127.0.0.1", 7077)
    assert all(f"{name}:7077" in everywhere for name in own_names() if ":" not in name and name == name.lower())
    assert "evil.example:7077" not in everywhere
    assert "[::1]" in allowed_hosts("::1", 80)


def test_the_user_has_a_name() -> None:
    assert user_name() == getpass.getuser()
