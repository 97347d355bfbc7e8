"""Whose habits a job follows: what its replicas are called, and which variables tell a program its place."""

from __future__ import annotations

from enum import StrEnum


class Convention(StrEnum):
    """The service whose words the user speaks."""

    AI_PLATFORM = "AI_PLATFORM"
    VERTEX = "VERTEX"


POOLS = ("chief", "worker", "ps", "evaluator")
"""Vertex numbers its worker pools by their roles (Vertex AI, distributed-training)."""


def replica_title(convention: Convention, role: str, index: int) -> str:
    """What messages call a replica: `master 0`, or `workerpool0-0`. AI Platform calls the chief the master."""
    if convention is Convention.VERTEX:
        return f"workerpool{POOLS.index(role)}-{index}"
    return f"{_shown_role(role)} {index}"


def task_name(convention: Convention, role: str, index: int) -> str:
    """What logs call a replica: `master-replica-0`, or `workerpool0-0`."""
    if convention is Convention.VERTEX:
        return replica_title(convention, role, index)
    return f"{_shown_role(role)}-replica-{index}"


def _shown_role(role: str) -> str:
    return "master" if role == "chief" else role
