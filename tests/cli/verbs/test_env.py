"""`stoker env`: variables for clients of Google's APIs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from stoker.cli.verbs.env import NAMES
from tests.cli.conftest import Cli
from tests.conftest import Server


def variables(said: str) -> dict[str, str]:
    """The exports, as a shell reads them."""
    words = [shlex.split(line) for line in said.splitlines()]
    return dict(word[1].split("=", 1) for word in words if word[0] == "export")


def test_it_names_the_server_its_token_and_the_project(served: Cli, server: Server) -> None:
    said = served("env", "--project", "mine").out
    found = variables(said)
    url = server.found.url
    assert found["CLOUDSDK_API_ENDPOINT_OVERRIDES_ML"] == found["CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"] == f"{url}/"
    assert found["STORAGE_EMULATOR_HOST"] == url and found["CLOUDSDK_CORE_PROJECT"] == "mine"
    assert found["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(server.home / "token")
    assert "unset CLOUDSDK_AUTH_DISABLE_CREDENTIALS" in said  # of a server that asked for none
    in_json = json.loads(served("env", "--project", "mine", "--json").out)
    assert {**found, "schema_version": in_json["schema_version"]} == in_json


def test_they_are_taken_back_without_a_server(cli: Cli) -> None:
    assert cli("env", "--unset").out.splitlines() == [f"unset {name}" for name in NAMES]
    assert not cli.home.exists()


def test_another_server_is_shown_its_own_token(cli: Cli, server: Server) -> None:
    cli.home.mkdir()
    (cli.home / "token").write_text("of this home, and nobody else's business\n")
    found = variables(cli("env", STOKER_URL=server.found.url, STOKER_TOKEN=server.found.token).out)
    file = Path(found["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"])
    assert file.read_text().strip() == server.found.token and file.stat().st_mode & 0o777 == 0o600
    refused = cli("env", STOKER_URL=server.found.url)
    assert refused.code != 0 and not variables(refused.out)
