"""One at a time for each job, where a job that floods would otherwise hold the threads that others need."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """Who comes while another of the same key is at it waits in the event loop, and holds no thread. For that loop alone."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """The lock of a key, for as long as anybody has it."""
        found = self._locks.get(key)
        if found is None:
            found = self._locks[key] = asyncio.Lock()
        return found
