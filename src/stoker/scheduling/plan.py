"""What a decision is: changes to commit, and for whoever waits, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.changes import Change
from stoker.core.job import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one decision, to be committed whole or not at all."""

    changes: tuple[Change, ...] = ()
    waits: Mapping[str, Reason] = field(default_factory=dict)  # job id → why it was not placed
