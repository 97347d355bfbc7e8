"""Ids tell their parents: `proj/job` → its attempt `proj/job.2` → its replica `proj/job.2/worker-0`."""

from __future__ import annotations

import re

JOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
"""What a job may be called (AI Platform v1, managing-models-jobs: letters, digits, underscore; first a letter; at most 128)."""

PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,127}")
"""What a project may be called: an id or a number, opaque to Stoker."""

BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
"""A lawful bucket name: 3 to 63 characters (contract 4.2)."""

CUSTOM_JOB_PREFIX = "custom_"
"""A Vertex custom job goes by a number there; here its name is this and the number."""


def job_id(project: str, name: str) -> str:
    """`proj`, `job` → `proj/job`."""
    return f"{project}/{name}"


def split_job_id(job: str) -> tuple[str, str]:
    """`proj/job` → (`proj`, `job`)."""
    project, _, name = job.partition("/")
    return project, name


def attempt_id(job: str, number: int) -> str:
    """`proj/job`, 2 → `proj/job.2`. Numbers start at 1."""
    return f"{job}.{number}"


def job_of_attempt(attempt: str) -> str:
    """`proj/job.2` → `proj/job`."""
    return attempt.rpartition(".")[0]


def replica_name(role: str, index: int) -> str:
    """`worker`, 0 → `worker-0`."""
    return f"{role}-{index}"


def replica_id(attempt: str, role: str, index: int) -> str:
    """`proj/job.2`, `worker`, 0 → `proj/job.2/worker-0`."""
    return f"{attempt}/{replica_name(role, index)}"


def attempt_of_replica(replica: str) -> str:
    """The attempt that a replica belongs to."""
    return replica.rpartition("/")[0]
