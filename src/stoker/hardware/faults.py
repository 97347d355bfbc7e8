"""A fault in a request: what was found, why it cannot be, and the nearest thing that can."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Field = Literal[
    "scale_tier", "machine_type", "replica_count", "accelerator_type", "accelerator_count", "region", "zone"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with a request, and what to do about it."""

    role: str  # "" when it concerns the whole job
    field: Field
    found: str
    why: str
    fix: str


def either(choices: Iterable[object]) -> str:
    """Choices as a phrase: `1, 2 or 4`."""
    return _joined([str(choice) for choice in choices], "or")


def both(things: Iterable[object]) -> str:
    """Things as a phrase: `T4, K80 and P100`."""
    return _joined([str(thing) for thing in things], "and")


def closest(text: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known names that a mistyped one resembles, the best first."""
    from difflib import get_close_matches

    names = {name.lower().replace("-", "_"): name for name in known}
    return [names[match] for match in get_close_matches(text.strip().lower().replace("-", "_"), names, n=limit)]


def _joined(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
