"""Which server is meant, and who gets to see which token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.conftest import Server


def a_home(home: Path, token: str = "canary-" + "x" * 40) -> str:
    """A home with a token."""
    home.mkdir(parents=True)
    (home / "token").write_text(token + "\n")
    return token


class Listener:
    """A server that answers everything with its own refusal, and remembers what it was shown."""

    def __init__(self) -> None:
        shown: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shown.append(self.headers.get("Authorization", ""))
                self.send_response(401)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.shown = shown
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Somebody who would like to see our token."""
    made = Listener()
    yield made
    made.close()


def test_the_homes_token_goes_to_an_address_of_this_machine_that_the_user_has_set(cli: Cli, listener: Listener) -> None:
    token = a_home(cli.home)
    assert cli("jobs", "list", STOKER_URL=f"http://127.0.0.1:{listener.port}").code == 4
    assert listener.shown == [f"Bearer {token}"]


def test_a_folder_that_names_a_server_does_not_get_the_homes_token(cli: Cli, listener: Listener) -> None:
    a_home(cli.home)
    (cli.folder / "stoker.yaml").write_text(f"url: http://127.0.0.1:{listener.port}\n")
    ran = cli("jobs", "list")
    assert (ran.code, listener.shown) == (4, [""])
    assert "STOKER_TOKEN" in ran.err


def test_a_wrong_token_is_told_with_where_it_came_from(served: Cli) -> None:
    ran = served("jobs", "list", STOKER_TOKEN="wrong-canary")
    assert ran.code == 4 and "that is not this server's token" in ran.err
    assert "STOKER_TOKEN is not that server's" in ran.err and "wrong-canary" not in ran.err
    (served.folder / "stoker.yaml").write_text("token: wrong\n")
    assert "stoker.yaml is not that server's" in served("jobs", "list").err


def test_a_missing_token_is_told(cli: Cli, server: Server) -> None:
    ran = cli("jobs", "list", STOKER_URL=server.found.url)
    assert ran.code == 4 and "no token was shown" in ran.err and "set STOKER_TOKEN" in ran.err
    assert cli("jobs", "list", STOKER_URL=server.found.url, STOKER_TOKEN=server.found.token).code == 0


def test_a_token_that_is_none_is_not_quoted(served: Cli) -> None:
    ran = served("jobs", "list", STOKER_TOKEN="canary-wröng\n")
    assert ran.code == 4 and "canary" not in ran.err


@pytest.mark.parametrize(
    "verb", ["jobs list", "status", "nodes", "why j", "logs j", "wait j", "jobs cancel j", "run -- true"]
)
def test_a_server_that_is_not_there_is_named_and_none_is_started(cli: Cli, verb: str) -> None:
    ran = cli(*verb.split(), STOKER_URL="http://127.0.0.1:1", STOKER_TOKEN="canary")
    assert ran.code == 5 and "http://127.0.0.1:1 does not answer" in ran.err
    assert "drop the address (environment)" in ran.err and "canary" not in ran.err
    assert not cli.home.exists()


def test_an_address_that_is_none(cli: Cli) -> None:
    ran = cli("jobs", "list", STOKER_URL="127.0.0.1:7077")
    assert ran.code == 6 and "'127.0.0.1:7077' is not http://HOST:PORT" in ran.err


def test_a_home_that_cannot_be_used(cli: Cli) -> None:
    cli.home.touch()
    for words in (("jobs", "list"), ("up",), ("run", "--", "true")):
        ran = cli(*words)
        assert ran.code == 5 and f"{cli.home} cannot be used" in ran.err and "set STOKER_HOME" in ran.err


def test_the_first_command_that_needs_a_server_starts_one_and_says_so(cli: Cli) -> None:
    first = cli("jobs", "list", STOKER_PORT="0", STOKER_AUTH="false")
    assert first.code == 0 and "started the embedded server at http://127.0.0.1:" in first.err
    assert str(cli.home) in first.err and "stoker down" in first.err
    assert "NO TOKEN is asked for" in first.err
    assert "started" not in cli("jobs", "list").err
    assert "the server has ended" in cli("down").err
    assert cli("down").err == "no server runs here\n"
