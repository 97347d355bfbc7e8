"""Every request that may change something leaves a line, whoever asked and however it was answered."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from stoker.api import audit
from stoker.api.app import make_app
from stoker.api.audit import Audit
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from tests.security.table import BASE, bearer, doors, patient


def lines(stoker: Stoker) -> list[dict[str, Any]]:
    path = stoker.config.home / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_every_route_that_may_change_something_leaves_a_line(stoker: Stoker) -> None:
    """From the route table; and what only reads leaves none."""
    with TestClient(
        patient(stoker), BASE, headers=bearer(stoker.tokens.token), raise_server_exceptions=False
    ) as client:
        for door in doors(stoker):
            if door.path.startswith("/stoker/replica/"):
                continue
            for method in sorted(door.methods):
                before = len(lines(stoker))
                answer = client.request(method, door.at(), params={"follow": "false"}, json={})
                new = lines(stoker)[before:]
                if method in ("GET", "HEAD"):
                    assert not new, (method, door.path)
                else:
                    assert [(line["method"], line["path"], line["status"]) for line in new] == [
                        (method, door.at(), answer.status_code)
                    ]


def test_a_line_says_who_and_from_where_and_no_secret(stoker: Stoker) -> None:
    token, _ = stoker.services.tokens.create("ada")
    with TestClient(patient(stoker), BASE, headers=bearer(token)) as client:
        client.post("/v1/projects/p/jobs?access_token=secret", json={})
        client.delete("/stoker/v1/tokens/ada")
    assert [(line["user"], line["from"], line["status"]) for line in lines(stoker)] == [
        ("ada", "testclient", 400),
        ("ada", "testclient", 403),
    ]
    text = (stoker.config.home / "audit.log").read_text()
    assert "secret" not in text and token not in text
    assert stat.S_IMODE((stoker.config.home / "audit.log").stat().st_mode) == 0o600


def test_wrong_tokens_leave_lines_and_cannot_fill_the_log(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    with TestClient(app, BASE, headers=bearer("x" * 43)) as client:
        for _ in range(150):
            client.get("/stoker/v1/status")
    assert not lines(stoker), "they wash nothing out of the log of what was done"
    found = [json.loads(line) for line in (stoker.config.home / "audit-refused.log").read_text().splitlines()]
    assert 100 <= len(found) < 105
    assert {(line["user"], line["method"], line["path"], line["status"]) for line in found} == {
        ("", "GET", "/stoker/v1/status", 401)
    }


def test_a_forged_newline_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    Audit(path).note(user="ada", address="::1", method="POST", path='/x\n{"user": "root"}\u2028\x1b[2J', status=404)
    assert len(path.read_bytes().splitlines()) == 1 and path.read_bytes().isascii() and b"\x1b" not in path.read_bytes()


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b" " * audit.LARGEST_BYTES)
    log = Audit(path)
    for _ in range(3):
        log.note(user="ada", address="", method="POST", path="/x", status=200)
    assert path.stat().st_size < 1000 and (tmp_path / "audit.log.1").stat().st_size > audit.LARGEST_BYTES


def test_a_disk_that_takes_nothing_keeps_nobody_out(tmp_path: Path) -> None:
    Audit(tmp_path / "no such folder" / "audit.log").note(user="a", address="", method="POST", path="/", status=200)
