"""The cache that keeps short texts only."""

from __future__ import annotations

from stoker.api.bounded_cache import LONGEST_KEPT, bounded_cache


def test_short_texts_are_kept_and_long_ones_are_not() -> None:
    made: list[int] = []

    @bounded_cache
    def length(text: str) -> int:
        made.append(len(text))
        return len(text)

    for _ in range(3):
        assert length("ab") == 2 and length("x" * (LONGEST_KEPT + 1)) == LONGEST_KEPT + 1
    assert made == [2, *[LONGEST_KEPT + 1] * 3]
