"""One estimate of one thing: what is said of a start and of the ends that it waits for goes together, and nothing is made up.

What is played draws a run time for every job. Of one that is like nothing that has run here that is a guess, good for weighing
one future against another, and no answer for people: they are told that it is not known, and what bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.insight.outlook import Holder, Interval, Start

NEAR_SECONDS = 60.0
NEAR_SHARE = 0.05
"""Moments are told apart that are further from each other than both of these, the share that of the time until then."""


def unknown(bound: float | None) -> Interval:
    """Of a moment of which nothing is known but by when it will have come; None: not even that."""
    return Interval(low=None, middle=None, high=bound)


def agreed(start: Start, holders: Sequence[Holder], ahead: Sequence[str], at: float) -> Start:
    """The start of a waiting job, as far as it is known, in agreement with the ends that are told of who holds its room.

    ahead: who is before it in the queue. at: now, in seconds since the epoch.
    """
    if start.is_by(at + 1.0) or not holders:
        return start
    let_in = next((holder for holder in holders if holder.job == start.waits_for), None)
    is_guess = (let_in is not None and not let_in.is_known) or not any(holder.is_known for holder in holders)
    if is_guess:
        whose = let_in or holders[0]
        bound = max((h.ends.high for h in holders if h.ends.high is not None), default=None) if not ahead else None
        basis = f"not known yet: nothing like {whose.job.rpartition('/')[2]} has run here"
        return replace(start, at=unknown(bound), basis=basis, draws=0, not_started=0)
    if let_in is None or let_in.ends.middle is None or start.at.middle is None:
        return start
    if len(holders) == 1 and not ahead:
        return replace(start, at=let_in.ends)
    near = max(NEAR_SECONDS, NEAR_SHARE * (let_in.ends.middle - at))
    if abs(start.at.middle - let_in.ends.middle) > near:
        return replace(start, waits_for="")  # now one of them lets it in, now another
    return start
