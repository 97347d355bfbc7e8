"""Nodes over HTTP: shown, cordoned, drained, given work again."""

from __future__ import annotations

import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.core.changes import NodeFailed, NodeGone
from tests.api.bodies import violations

NODES = "/stoker/v1/nodes"


def a_node(http: TestClient, name: str = "virtual-0") -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"{NODES}/{name}").json()
    return found


def test_a_cordoned_node_says_by_whom_and_why(http: TestClient, stoker: Stoker) -> None:
    answered = http.post(f"{NODES}/virtual-0:cordon", json={"why": "new driver"})
    assert answered.json() == a_node(http)
    node = a_node(http)
    cordon = node["cordon"]
    assert (cordon["why"], cordon["empty_at"], cordon["by"] != "") == ("new driver", None, True)
    assert (node["state"], node["takes_work"], node["accelerators_free"]) == ("UP", False, 4), "free, and not usable"
    assert a_node(http, "virtual-1")["takes_work"]
    assert http.post(f"{NODES}/virtual-0:uncordon", json={}).json()["takes_work"]
    assert a_node(http)["cordon"] is None


def test_a_drain_says_by_when_the_node_is_empty(http: TestClient) -> None:
    cordon = http.post(f"{NODES}/virtual-0:drain", json={"within_seconds": 1800.0}).json()["cordon"]
    assert cordon["empty_at"] == cordon["at"] + 1800.0
    cordon = http.post(f"{NODES}/virtual-0:drain", json={}).json()["cordon"]
    assert cordon["empty_at"] == cordon["at"], "at once; and the newest wish counts"


def test_a_node_that_is_gone_is_shown_as_long_as_it_is_cordoned(http: TestClient, stoker: Stoker) -> None:
    http.post(f"{NODES}/virtual-0:cordon", json={})
    stoker.store.commit([NodeGone(name="virtual-0")], by="loop")
    assert a_node(http)["state"] == "GONE"
    assert "virtual-0" in [node["name"] for node in http.get(NODES).json()["nodes"]]
    assert http.post(f"{NODES}/virtual-0:uncordon", json={}).json()["cordon"] is None
    assert http.get(f"{NODES}/virtual-0").status_code == 404


def test_what_a_node_was_to_blame_for_is_shown_and_forgiven(http: TestClient, stoker: Stoker) -> None:
    stoker.store.commit([NodeFailed(node="virtual-0", job="p/j", at=5.0, what="the node was lost")], by="loop")
    assert a_node(http)["faults"] == [{"job": "p/j", "at": 5.0, "what": "the node was lost"}]
    http.post(f"{NODES}/virtual-0:uncordon", json={})
    assert a_node(http)["faults"] == []


@pytest.mark.parametrize("verb", ["", ":cordon", ":drain", ":uncordon"])
def test_a_node_that_there_is_not(http: TestClient, verb: str) -> None:
    path = f"{NODES}/virtual-O{verb}"
    answer = http.post(path, json={}) if verb else http.get(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (404, "NOT_FOUND")
    assert error["message"].startswith("there is no node 'virtual-O'; did you mean virtual-")
    assert error["hint"] == "stoker nodes lists them"


WRONG: list[tuple[Any, str]] = [
    ({"within_seconds": -1.0}, "within_seconds"),
    ({"within_seconds": 1e10}, "within_seconds"),
    ({"within_seconds": "10m"}, "within_seconds"),
    ({"why": 7}, "why"),
    ({"why": "a\x00b"}, "why"),
    ({"why": "x" * 1001}, "why"),
    ({"reason": "x"}, "reason"),
    ([], "body"),
]


def test_a_wish_that_is_none(http: TestClient) -> None:
    for body, field in WRONG:
        assert list(violations(http.post(f"{NODES}/virtual-0:drain", json=body))) == [field], body
    assert http.post(f"{NODES}/virtual-0:drain", content=f'{{"within_seconds": {math.inf}}}').status_code == 400
    assert a_node(http)["cordon"] is None
