"""The attempt that a replica is of."""

from __future__ import annotations

from stoker.api.services import Services
from stoker.core.errors import Conflict
from stoker.core.job import Attempt
from stoker.core.states import AttemptState


def live_attempt(site: Services, attempt: str) -> Attempt:
    """An attempt that has not ended. Raises Conflict, or NotFound."""
    with site.live.look() as world:
        found = world.attempts.get(attempt)
    if found is None:
        site.unknown.check_attempt(attempt)
        found = site.store.attempt(attempt)
    if found.state is AttemptState.ENDED:
        raise Conflict(f"attempt {attempt} has ended")
    return found
