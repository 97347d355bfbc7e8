"""Times, as answers show them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
