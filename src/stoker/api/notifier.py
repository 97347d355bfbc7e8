"""Wakes the streams and waiters of the event loop when something was committed, or a log has grown."""

from __future__ import annotations

import asyncio
from typing import Any


class Notifier:
    """Called from any thread; waited for in the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[
            str, list[asyncio.Future[None]]
        ] = {}  # by the job whose output they wait for; "": anybody's
        self._pending = False
        self._pending_jobs: set[str] = set()
        self.closed = False

    def attach(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    def notify(self, _: Any = None) -> None:
        """Wake everybody who waits. Many calls before anybody looks are one."""
        if self._loop is not None and not self._pending:
            self._pending = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                pass  # the event loop has ended

    def notify_for(self, job: str) -> None:
        """Wake who waits for the output of this job. A thousand jobs print all the time, and most people wait for one."""
        if self._loop is not None and job not in self._pending_jobs:
            self._pending_jobs.add(job)
            try:
                self._loop.call_soon_threadsafe(self._wake_for, job)
            except RuntimeError:
                pass  # the event loop has ended

    def close(self) -> None:
        """Wake everybody for the last time: streams end."""
        self.closed = True
        self._wake()

    def next(self, job: str = "") -> asyncio.Future[None]:
        """What is done at the next call, for who waits for the output of one job; or of any.

        Take it before you look, or you may miss what happens between looking and waiting.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.closed:
            future.set_result(None)
        else:
            self._waiting.setdefault(job, []).append(future)
        return future

    def _wake(self) -> None:
        self._pending = False
        waiting, self._waiting = self._waiting, {}
        for futures in waiting.values():
            _set_off(futures)

    def _wake_for(self, job: str) -> None:
        self._pending_jobs.discard(job)
        _set_off(self._waiting.pop(job, []))
        _set_off(self._waiting.pop("", []))


def _set_off(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


async def wait(ring: asyncio.Future[None], seconds: float) -> bool:
    """Wait for a ring, but no longer than this. Returns whether it rang."""
    try:
        await asyncio.wait_for(asyncio.shield(ring), seconds)
    except TimeoutError:
        ring.cancel()
        return False
    return True
