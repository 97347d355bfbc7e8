"""How often somebody may ask, and how much at a time: wrong tokens by address, right ones by user. In memory, and bounded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stoker.core.errors import TooMany

_MOST_KNOWN = 10_000


@dataclass(slots=True)
class WrongTokens:
    """Wrong tokens of an address are answered more and more slowly. A right one is never kept waiting by others' wrong ones."""

    free: int = 100
    """So many in a row are only wrong."""
    longest_seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[int, float]] = field(default_factory=dict)  # address → how many, and when the last was

    def note(self, address: str) -> None:
        """One more. Raises TooMany from the first that is too many, until there was peace for as long as that says."""
        now = self.clock()
        count, last = self._known.pop(address, (0, now))
        pause = self._pause(count)
        if now - last >= max(pause, self.longest_seconds):
            count, pause = 0, 0.0
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]  # the one that was heard of longest ago
        self._known[address] = (count + 1, now)
        if pause:
            raise TooMany("too many wrong tokens came from this address", retry_after_seconds=pause)

    def _pause(self, count: int) -> float:
        return min(self.longest_seconds, 2.0 ** min(30, count - self.free)) if count >= self.free else 0.0


@dataclass(slots=True)
class Requests:
    """Requests of each user: so many a second, and twice as many at once. The admins' own are not counted."""

    per_second: float  # 0: no limit
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)  # user → how many are left, and when that was

    def note(self, user: str) -> None:
        """One more. Raises TooMany."""
        if not self.per_second:
            return
        most, now = 2 * self.per_second, self.clock()
        left, at = self._left.get(user, (most, now))
        left = min(most, left + (now - at) * self.per_second)
        if left < 1:
            raise TooMany(
                f"{user} asks more than {self.per_second:g} times a second",
                fix="ask less often, or in larger pages; the setting is requests_per_second",
                retry_after_seconds=(1 - left) / self.per_second,
            )
        self._left[user] = (left - 1, now)


_USERS_OF_AN_ADDRESS = 4


@dataclass(slots=True)
class UnderWay:
    """Requests that are not answered yet, streams and downloads among them: so many of a user, and some more of an address.

    Each keeps a connection, and what its reader has not taken yet. The admins' own are not counted.
    """

    most: int  # of a user; 0: no limit
    _open: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def one(self, user: str, address: str) -> Iterator[None]:
        """One more, while the block lasts. Raises TooMany."""
        limits = {f"user {user}": self.most, f"address {address}": self.most * _USERS_OF_AN_ADDRESS}
        full = next((key for key, most in limits.items() if self.most and self._open[key] >= most), "")
        if full:
            raise TooMany(
                f"{limits[full]} requests of the {full} are under way already: streams and downloads count until they are read",
                fix="read or close some of them; the setting is requests_at_once",
                retry_after_seconds=1.0,
            )
        self._open.update(limits.keys())
        try:
            yield
        finally:
            for key in limits:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]
