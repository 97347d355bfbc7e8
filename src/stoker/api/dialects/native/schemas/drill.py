"""What a drill is told."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import Time, says


class Interrupted(TypedDict):
    """A signal that a job's program gets."""

    at: Annotated[float, says(f"When. {Time}", 1795190400.0)]
    replicas: Annotated[list[str], says("Whose processes get it.", ["worker-0"])]
