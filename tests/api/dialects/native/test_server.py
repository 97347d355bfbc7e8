"""The server itself."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from stoker import __version__
from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker, build
from stoker.config import read_config
from stoker.gpu.drivers.fake import FakeDriver
from stoker.settings import SETTINGS
from tests.api.bodies import a_run

PROJECT = "/stoker/v1/projects/p"


def test_status(http: TestClient, stoker: Stoker) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    status = http.get("/stoker/v1/status").json()
    assert (status["version"], status["home"], status["engines"]) == (__version__, str(stoker.config.home), ["local"])
    assert (status["nodes"], status["jobs"], status["hold"]) == (24, {"live": 1, "running": 0}, True)
    assert str(stoker.config.home / "buckets/gs") in status["buckets"]


def test_shutdown_names_what_goes_on(http: TestClient) -> None:
    assert http.post("/stoker/v1/shutdown").json() == {"running": []}


def test_a_wrong_method_is_told_which_there_are(http: TestClient) -> None:
    answer = http.delete("/stoker/v1/status")
    assert (answer.status_code, answer.headers["Allow"], answer.json()["error"]["code"]) == (405, "GET", 405)


def test_every_setting_is_told_with_where_it_comes_from(http: TestClient) -> None:
    told = {found["name"]: found for found in http.get("/stoker/v1/settings").json()["settings"]}
    assert set(told) == {setting.name for setting in SETTINGS} and all(found["help"] for found in told.values())
    assert (told["hold"]["value"], told["hold"]["source"]) == (True, "flag")
    assert (told["policy"]["value"], told["policy"]["source"]) == ("priority", "default")
    assert told["token"]["value"] == ""  # none was set; the home's own is no setting


def test_a_token_is_never_told(tmp_path: Path) -> None:
    flags = {"home": str(tmp_path), "hold": True, "token": "canary-3f2a9c-canary"}
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    app = make_app(made.services, made.tokens, allowed_hosts("127.0.0.1", 7077), needs_token=False)
    with TestClient(app, "http://127.0.0.1:7077") as client:
        answer = client.get("/stoker/v1/settings")
    made.store.close()
    told = {found["name"]: found["value"] for found in answer.json()["settings"]}
    assert told["token"] == "(set)" and "canary" not in answer.text
