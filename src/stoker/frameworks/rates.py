"""How a learning rate grows with the replicas, where a job asks for that (`--learning-rate-rule`)."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, Set

from .words import say

_RULES: Dict[str, Callable[[int], float]] = {"linear": float, "sqrt": math.sqrt}


class Rates:
    """The learning rates of a program's optimizers."""

    def __init__(self, count: int) -> None:
        """`count`: so many replicas train in step."""
        self._rule = asked_rule()
        self._factor = _RULES[self._rule](count) if self._rule else 1.0
        self._sped_up: Set[int] = set()  # optimizers of Keras, by id
        self._given = math.nan  # the last that was
        self._note = ""

    def scale(self, optimizer: Any) -> None:
        """Let that of an optimizer of Keras grow, once."""
        if not self._rule or id(optimizer) in self._sped_up:
            return
        self._sped_up.add(id(optimizer))
        try:
            before = float(optimizer.learning_rate)
            optimizer.learning_rate = before * self._factor
        except (TypeError, ValueError, AttributeError):
            self._note = "its learning rate follows a schedule of its own and is left as it is"
            return
        self._tell(before)

    def scale_group(self, group: Dict[str, Any]) -> None:
        """Let that of some parameters of PyTorch grow."""
        if self._rule and isinstance(group.get("lr"), (int, float)):
            before = float(group["lr"])
            group["lr"] = before * self._factor
            self._tell(before)

    def note(self, rate: float) -> str:
        """What to say of it after the first step. `rate`: what it was in that; nan: nobody knows."""
        if math.isfinite(rate) and math.isfinite(self._given) and not math.isclose(rate, self._given, rel_tol=1e-3):
            return f"{self._note}, which the program has set to {rate:g} since"
        return self._note

    def _tell(self, before: float) -> None:
        self._given = before * self._factor
        self._note = f"learning rate {before:g} -> {self._given:g} ({self._rule})"


def asked_rule() -> str:
    """`linear` or `sqrt`; empty: it stays as it is."""
    found = os.environ.get("STOKER_LEARNING_RATE_RULE", "")
    return found if found in _RULES else ""


def say_no_rule() -> None:
    """Where nobody knows how many replicas train in step, or how."""
    if asked_rule():
        say("--learning-rate-rule does nothing here: the learning rate is as the program has it")
