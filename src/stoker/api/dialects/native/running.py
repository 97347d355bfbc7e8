"""Replicas of a job that runs, to be asked something."""

from __future__ import annotations

from stoker.api.services import Services
from stoker.core.errors import Conflict, NotFound
from stoker.core.ids import replica_name
from stoker.core.job import Attempt
from stoker.core.states import AttemptState, ReplicaState
from stoker.engines.base import Engine


def running(site: Services, job: str) -> tuple[Attempt, list[str], Engine]:
    """A job's attempt, the names of the replicas that are up, and who can ask them. Raises Conflict if there are none."""
    attempt = site.store.job(job).attempt
    is_live = attempt is not None and attempt.state is not AttemptState.ENDED
    up = [r for r in attempt.replicas if r.seen is ReplicaState.UP] if attempt is not None and is_live else []
    if attempt is None or not up:
        raise Conflict(f"{job} does not run now, so its replicas cannot be asked", fix="ask while it is RUNNING")
    engine = site.engines.get(attempt.engine)
    if engine is None:
        raise NotFound(f"the engine {attempt.engine} of {job} is not of this site any more")
    return attempt, [replica_name(r.role, r.index) for r in up], engine
