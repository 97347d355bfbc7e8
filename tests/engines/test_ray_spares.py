"""A worker of Ray's is ready on every node, and ordered anew when an actor has taken it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stoker.engines.ray import spares as spares_module
from stoker.engines.ray.spares import Spares
from tests.conftest import wait_until


def a_row(node: str, *, cpus: float = 4.0) -> Mapping[str, Any]:
    return {"NodeID": node, "Resources": {"CPU": cpus} if cpus else {}}


class Orders:
    """What was ordered; `problem`: what it answers."""

    def __init__(self, problem: str = "") -> None:
        self.problem, self.nodes = problem, list[str]()

    def __call__(self, row: Mapping[str, Any]) -> None:
        self.nodes.append(row["NodeID"])
        if self.problem:
            raise RuntimeError(self.problem)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares_module, "AFTER_SECONDS", 0.0)


def test_every_node_that_runs_work_has_one(at_once: None) -> None:
    orders = Orders()
    spares = Spares(orders)
    nodes = {"a": a_row("1"), "b": a_row("2"), "head": a_row("3", cpus=0)}
    spares.look(nodes)
    spares.look(nodes)
    wait_until(lambda: sorted(orders.nodes) == ["1", "2"])
    spares.take("1")
    spares.look(nodes)
    wait_until(lambda: sorted(orders.nodes) == ["1", "1", "2"])


def test_none_is_ordered_while_a_program_starts_or_a_node_is_new() -> None:
    orders = Orders()
    spares = Spares(orders)
    spares.take("1")
    spares.look({"a": a_row("1"), "b": a_row("2")})
    spares.look({"a": a_row("1"), "b": a_row("2")})
    assert not orders.nodes


def test_a_node_that_comes_back_gets_another(at_once: None) -> None:
    orders = Orders()
    spares = Spares(orders)
    for nodes in ({"a": a_row("1")}, {}, {"a": a_row("1")}):
        spares.look(nodes)
    wait_until(lambda: orders.nodes == ["1", "1"])


def test_who_refuses_is_asked_again_only_when_one_was_taken(at_once: None, caplog: pytest.LogCaptureFixture) -> None:
    orders = Orders(problem="no such call")
    spares = Spares(orders)
    for _ in range(3):
        spares.look({"a": a_row("1"), "b": a_row("2")})
    wait_until(lambda: len(orders.nodes) == 2 and caplog.messages)
    assert caplog.messages == ["Ray keeps no worker ready on its nodes, replicas start a second later: no such call"]
