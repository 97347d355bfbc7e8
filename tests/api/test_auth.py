"""Nothing is reached without the right token, whatever the route and the method; and from no other site's page."""

from __future__ import annotations

import getpass
import stat
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from stoker.api.app import make_app, routes
from stoker.api.auth import Tokens, allowed_hosts, own_names, read_or_make_token, user_name
from stoker.app import Stoker

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


def test_a_job_of_another_server_shows_no_token_of_ours() -> None:
    assert not Tokens("a" * 43).is_attempt("p/j.1", Tokens("b" * 43).of_attempt("p/j.1"))


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


def test_the_token_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    made = read_or_make_token(tmp_path / "token")
    assert len(made.token) >= 43
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert read_or_make_token(tmp_path / "token") == made
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_token_that_others_can_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a" * 43 + "\n")
    path.chmod(0o644)
    assert read_or_make_token(path).token == "a" * 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("left", ["", "\n", "short"])
def test_a_token_that_a_crash_cut_off_is_made_anew(tmp_path: Path, left: str) -> None:
    path = tmp_path / "token"
    path.write_text(left)
    assert len(read_or_make_token(path).token) >= 43


def test_no_token_opens_nothing() -> None:
    assert not Tokens("").is_user("")
    assert not Tokens("x" * 43).is_user("")


def test_on_every_address_this_machines_names_are_accepted() -> None:
    everywhere = allowed_hosts("0.0.0.0", 7077)
    assert everywhere > allowed_hosts("127.0.0.1", 7077)
    assert all(f"{name}:7077" in everywhere for name in own_names() if ":" not in name and name == name.lower())
    assert "evil.example:7077" not in everywhere
    assert "[::1]" in allowed_hosts("::1", 80)


def test_the_user_has_a_name() -> None:
    assert user_name() == getpass.getuser()
