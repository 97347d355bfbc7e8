"""`stoker env`: variables for clients of Google's APIs."""

from __future__ import annotations

import json
import shlex

from tests.cli.conftest import Cli
from tests.conftest import Server


def variables(said: str) -> dict[str, str]:
    """The exports, as a shell reads them."""
    words = [shlex.split(line) for line in said.splitlines()]
    assert all(word[0] == "export" and len(word) == 2 for word in words)
    return dict(word[1].split("=", 1) for word in words)


def test_it_names_the_server_its_token_and_the_project(served: Cli, server: Server) -> None:
    found = variables(served("env", "--project", "mine").out)
    url = server.found.url
    assert found["CLOUDSDK_API_ENDPOINT_OVERRIDES_ML"] == found["CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"] == f"{url}/"
    assert found["STORAGE_EMULATOR_HOST"] == url and found["CLOUDSDK_CORE_PROJECT"] == "mine"
    assert found["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(server.home / "token")
    in_json = json.loads(served("env", "--project", "mine", "--json").out)
    assert {**found, "schema_version": in_json["schema_version"]} == in_json


def test_they_can_be_taken_back(served: Cli) -> None:
    names = set(variables(served("env").out))
    assert {line.removeprefix("unset ") for line in served("env", "--unset").out.splitlines()} == names
