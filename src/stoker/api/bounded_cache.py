"""A cache for what is made of a text again and again. Long texts are not kept: users write them, and memory is ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

LONGEST_KEPT = 8192
MOST_KEPT = 1024

Made = TypeVar("Made")


def bounded_cache(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """The function with a cache. What it returns is shared: nobody may write into it."""
    remembered = lru_cache(maxsize=MOST_KEPT)(make)

    @wraps(make)
    def ask(text: str) -> Made:
        return remembered(text) if len(text) <= LONGEST_KEPT else make(text)

    return ask
