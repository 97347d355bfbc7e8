"""The SDK against an application in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.client import connection
from stoker.client.client import Client


@pytest.fixture
def client(http: TestClient, stoker: Stoker) -> Iterator[Client]:
    """The client that the SDK uses: its way leads to an application in this process, whose loop is at rest."""
    made = Client("http://127.0.0.1:7077", stoker.tokens.token, transport=http._transport, pause=lambda _: None)
    connection.use(made)
    yield made
    connection.use(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a script in it, and a home that nobody has used."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "nobody"))
    return folder
