"""`stoker config`: settings shown and changed."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli


def test_every_setting_says_where_it_comes_from(cli: Cli) -> None:
    (cli.folder / "stoker.yaml").write_text("region: europe-west1\n")
    found = json.loads(cli("config", "list", "--json", STOKER_PROJECT="mine").out)["settings"]
    values = {s["name"]: (s["value"], s["source"]) for s in found}
    assert values["project"] == ("mine", "environment")
    assert values["region"] == ("europe-west1", str(cli.folder / "stoker.yaml"))
    assert values["port"] == (7077, "default")
    assert "europe-west1" in cli("config", "list").out


def test_a_setting_is_kept_explained_and_dropped(cli: Cli) -> None:
    assert cli("config", "set", "region", "us-east1").code == 0
    assert cli("config", "get", "region").out == "us-east1\n"
    assert f"(from {cli.home}/config.yaml; default 'us-central1')" in cli("config", "explain", "region").out
    assert cli("config", "unset", "region").code == 0
    assert cli("config", "get", "region").out == "us-central1\n"


def test_the_token_is_not_shown(cli: Cli) -> None:
    for words in (
        ("config", "list"),
        ("config", "list", "--json"),
        ("config", "get", "token"),
        ("config", "explain", "token"),
    ):
        ran = cli(*words, STOKER_TOKEN="canary-token")
        assert ran.code == 0 and "canary" not in ran.out + ran.err, words
