"""How a learning rate grows with the replicas, where a job asks for that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.frameworks.processes.learning_rates import Rates


@pytest.mark.parametrize(("rule", "rate"), [("linear", 0.4), ("sqrt", 0.2), ("none", 0.1), ("", 0.1), ("cubic", 0.1)])
def test_it_grows_once_by_the_rule(monkeypatch: pytest.MonkeyPatch, rule: str, rate: float) -> None:
    monkeypatch.setenv("STOKER_LEARNING_RATE_RULE", rule)
    rates = Rates(4)
    optimizer, group = SimpleNamespace(learning_rate=0.1), {"lr": 0.1}
    for _ in range(2):
        rates.scale(optimizer)
        rates.scale_group(group, [])
    assert optimizer.learning_rate == pytest.approx(rate) and group["lr"] == pytest.approx(rate)


def test_a_group_that_takes_the_rate_of_another_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_LEARNING_RATE_RULE", "linear")
    rates, first = Rates(2), {"lr": 0.1}
    rates.scale_group(first, [])
    second = {"lr": first["lr"]}
    rates.scale_group(second, [first])
    assert (first["lr"], second["lr"]) == (0.2, 0.2)
