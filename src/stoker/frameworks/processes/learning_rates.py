"""How a learning rate grows with the replicas, where a job asks for that (`--learning-rate-rule`)."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, NamedTuple, Sequence

from stoker.frameworks.messages import say

_RULES: Dict[str, Callable[[int], float]] = {"linear": float, "sqrt": math.sqrt}


class Given(NamedTuple):
    """What an optimizer, or a group of its parameters, was given."""

    owner: Any  # held, so that nobody else gets its id
    before: float
    rate: float


class Rates:
    """The learning rates of a program's optimizers."""

    def __init__(self, count: int) -> None:
        """`count`: so many replicas train in step."""
        self._rule = asked_rule()
        self._factor = _RULES[self._rule](count) if self._rule else 1.0
        self._given: Dict[int, Given] = {}  # by the id of the owner

    def scale(self, optimizer: Any) -> None:
        """Let that of an optimizer of Keras grow, once."""
        if not self._rule or id(optimizer) in self._given:
            return
        try:
            before = float(optimizer.learning_rate)
            optimizer.learning_rate = before * self._factor
        except (TypeError, ValueError, AttributeError):
            before = math.nan  # it follows a schedule
        self._given[id(optimizer)] = Given(optimizer, before, before * self._factor)

    def scale_group(self, group: Dict[str, Any], others: Sequence[Dict[str, Any]]) -> None:
        """Let that of some parameters of PyTorch grow, once. `others`: of the same optimizer; who takes their rate has enough."""
        if not self._rule or id(group) in self._given or "lr" not in group:
            return
        known = [self._given[id(other)].rate for other in others if id(other) in self._given]
        before = float(group["lr"])
        if before not in known:
            group["lr"] = group["lr"] * self._factor  # a number, or a tensor
        self._given[id(group)] = Given(group, before, float(group["lr"]))

    def note(self, owner: Any, rate: float) -> str:
        """What to say of it after the first step. `rate`: what it was in that; nan: nobody knows."""
        given = self._given.get(id(owner))
        if given is None:
            return ""
        if math.isnan(given.rate):
            return "the learning rate follows a schedule and is left as it is"
        note = f"learning rate {given.before:g} -> {given.rate:g} ({self._rule})"
        is_other = not math.isnan(rate) and not math.isclose(rate, given.rate, rel_tol=1e-3)
        return f"{note}, by now {rate:g}" if is_other else note


def asked_rule() -> str:
    """`linear` or `sqrt`; empty: it stays as it is."""
    found = os.environ.get("STOKER_LEARNING_RATE_RULE", "")
    return found if found in _RULES else ""


def say_no_rule() -> None:
    """Where nobody knows how many replicas train in step, or how."""
    if asked_rule():
        say("--learning-rate-rule does nothing here: the learning rate is as the program has it")
