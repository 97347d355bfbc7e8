"""What attempts died of, in Stoker's own words."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.job import Attempt, Job
from stoker.scheduling.doctor import decision, diagnose

from .schemas.diagnosis import Diagnosis


def diagnosis_row(job: Job, attempt: Attempt) -> Diagnosis | None:
    """What an attempt died of; null for one that lives, or has succeeded."""
    found = diagnose(job, attempt)
    if found is None:
        return None
    return {
        "code": found.code,
        "title": found.title,
        "replica": found.replica,
        "node": found.node,
        "evidence": found.evidence,
        "fix": found.fix,
        "blame": str(found.blame),
        "again": str(found.again),
        "decision": decision(job, attempt, found),
    }


def newest_diagnosis(job: Job, attempts: Sequence[Attempt]) -> Diagnosis | None:
    """What the newest attempt died of."""
    newest = max(attempts, key=lambda attempt: attempt.number, default=None)
    return None if newest is None else diagnosis_row(job, newest)
