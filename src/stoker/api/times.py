"""Times, as answers show them."""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.core.job import Job


def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def times_of(job: Job) -> dict[str, str]:
    """createTime, startTime and endTime, as far as there are any: Google's dialects call them alike."""
    times = {"createTime": job.submitted_at, "startTime": job.started_at, "endTime": job.ended_at}
    return {name: timestamp(at) for name, at in times.items() if at is not None}
