"""Which server the SDK speaks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stoker as sdk
from stoker.client import connection, embedded
from stoker.config import read_config
from stoker.core.errors import BadSpec, Unauthenticated, Unavailable
from tests.conftest import Server


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that nobody has used, in an empty folder; the process forgets its server afterwards."""
    for name in ("STOKER_URL", "STOKER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STOKER_PORT", "0")
    yield tmp_path / "home"
    connection.use(None)


def test_the_server_of_this_home_is_started_when_it_is_needed(nobody: Path) -> None:
    assert sdk.jobs() == []
    found = embedded.find(connection.settings())
    assert found is not None and connection.the_client().url == found.url
    assert connection.the_client() is connection.the_client()
    embedded.stop(connection.settings(), found)
    assert sdk.jobs() == []  # and again; it listens somewhere else by now
    again = embedded.find(connection.settings())
    assert again is not None and again.pid != found.pid
    embedded.stop(connection.settings(), again)


def test_another_server_is_connected_to(server: Server, nobody: Path) -> None:
    assert sdk.connect(server.found.url, server.found.token).url == server.found.url
    server.client.run("local", {"name": "theirs", "command": ["true"]})
    assert sdk.get("theirs").wait() == "SUCCEEDED"
    assert not nobody.exists()


def test_the_settings_name_another_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_URL", server.found.url)
    monkeypatch.setenv("STOKER_TOKEN", server.found.token)
    assert connection.the_client().url == server.found.url


def test_what_cannot_be_connected_to_is_told_at_once(server: Server) -> None:
    with pytest.raises(Unauthenticated):
        sdk.connect(server.found.url, "wrong")
    with pytest.raises(Unavailable):
        sdk.connect("http://127.0.0.1:1", "x")
    with pytest.raises(BadSpec):
        sdk.connect("nonsense")


def test_a_folder_that_names_a_server_does_not_get_the_homes_token(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    (home / "token").write_text("canary\n")
    (folder / "stoker.yaml").write_text("url: http://127.0.0.1:1\n")
    of_folder = read_config({"STOKER_HOME": str(home)}, folder)
    of_user = read_config({"STOKER_HOME": str(home), "STOKER_URL": "http://127.0.0.1:1"}, folder)
    elsewhere = read_config({"STOKER_HOME": str(home), "STOKER_URL": "http://elsewhere:1"}, folder)
    assert [connection.address_of(config)[1] for config in (of_folder, of_user, elsewhere)] == ["", "canary", ""]


def test_who_leads_is_looked_up_again_only_in_the_own_home(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_HOME", str(server.home))
    own = connection.client_of(connection.settings())
    assert own._find is not None and own._find() == (server.found.url, server.found.token)
    monkeypatch.setenv("STOKER_URL", server.found.url)
    assert connection.client_of(connection.settings())._find is None
    assert connection.the_client()._find is None


def test_none_is_started_for_who_does_not_want_it(nobody: Path) -> None:
    with pytest.raises(Unavailable, match="no server runs here"):
        connection.client_of(connection.settings(), start=False)
    assert not nobody.exists()
