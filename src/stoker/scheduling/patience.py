"""How long one waits before others are stopped for it, where everybody may be stopped for somebody."""

from __future__ import annotations

from .base import Facts

ALONE_SECONDS = 30.0
"""A job of one device finds room by itself within moments, more often than not."""

STOPPED_SECONDS = 1200.0
"""One that was stopped for others does not have others stopped in turn at once: that would be a carousel."""


def patience_seconds(waiter: Facts, stopped_seconds: float) -> float:
    """How long it has to have waited. `stopped_seconds`: for one that was stopped for others itself; 0: nobody is patient."""
    if waiter.job.preemptions:
        return stopped_seconds
    return min(ALONE_SECONDS, stopped_seconds) if waiter.gpus <= 1 else 0.0
