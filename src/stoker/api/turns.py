"""One at a time for each job, where a job that floods would otherwise hold the threads and the memory that others need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

MOST_AT_ONCE = 16
"""Of so many requests of a job the bodies are in memory; others are not read before their turn comes."""


class _Turn:
    def __init__(self) -> None:
        self.reads = asyncio.Semaphore(MOST_AT_ONCE)
        self.keeps = asyncio.Lock()


class Turns:
    """Who has to wait does so in the event loop, and holds no thread. For that loop alone."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[asyncio.Lock]:
        """While one may read its request; the lock is for what is done with it."""
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn()
        async with turn.reads:
            yield turn.keeps
