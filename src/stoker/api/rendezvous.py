"""Where the replicas of an attempt wait for each other: one looks for all of them, and its answer is everybody's.

If each looked for itself, whenever anybody came, a gang of n would cost n³: so many wait, so often, for so many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from .notifier import Notifier, wait

LOOK_SECONDS = 1.0
LEAST_PAUSE_SECONDS = 0.005
"""Between two looks, however many come: they come all at once, and one look sees them all."""


class _Meeting:
    """The replicas of one attempt that wait, and who looks for them."""

    def __init__(self) -> None:
        self.waiting = 0
        self.looks: asyncio.Task[bytes] | None = None


class Rendezvous:
    """For the event loop alone. What is found is kept until the last of those who wait has it."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._meetings: dict[str, _Meeting] = {}

    async def wait(self, key: str, job: str, look: Callable[[], bytes], seconds: float) -> bytes:
        """What `look` finds, which is asked in a thread whenever the job has news; empty after a while, or at the end.

        Raises what `look` raises.
        """
        meeting = self._meetings.setdefault(key, _Meeting())
        meeting.waiting += 1
        try:
            if meeting.looks is None:
                meeting.looks = asyncio.create_task(self._look(job, look))
            done, _ = await asyncio.wait({meeting.looks}, timeout=seconds)
            return meeting.looks.result() if done else b""
        finally:
            meeting.waiting -= 1
            if not meeting.waiting or meeting.looks is None or meeting.looks.done():
                if self._meetings.get(key) is meeting:  # who comes now looks anew
                    del self._meetings[key]
            if not meeting.waiting and meeting.looks is not None:
                meeting.looks.cancel()

    async def _look(self, job: str, look: Callable[[], bytes]) -> bytes:
        while True:
            ring = self._notifier.next(job)
            found = await run_in_threadpool(look)
            if found or self._notifier.closed:
                ring.cancel()
                return found
            await wait(ring, LOOK_SECONDS)
            await asyncio.sleep(LEAST_PAUSE_SECONDS)
