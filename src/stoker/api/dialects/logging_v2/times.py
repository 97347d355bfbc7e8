"""Times as Cloud Logging writes them, exact to the nanosecond; a line's own are whole microseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from stoker.api.filters import Comparison
from stoker.core.errors import BadSpec, Violation

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_IN_UTC = datetime(1970, 1, 1)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|z|[+-]\d\d:?\d\d)?")


def timestamp(moment: int) -> str:
    """RFC 3339 of microseconds since the epoch. Always of one length, since gcloud compares the texts."""
    return f"{(_EPOCH_IN_UTC + timedelta(microseconds=moment)).isoformat(timespec='microseconds')}Z"


def nanoseconds(comparison: Comparison) -> int:
    """The time that something is compared with, in nanoseconds since the epoch; UTC if it says no zone. Raises BadSpec."""
    found = _TIME.fullmatch(comparison.value)
    if found is not None:
        date, clock, fraction, zone = found.groups()
        try:
            time = datetime.fromisoformat(f"{date}T{clock or '00:00'}{(zone or 'Z').upper()}")
        except ValueError:
            pass
        else:
            return (time - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0"))
    problem = f"{comparison.field}: {comparison.value[:80]!r} is not a time like 2026-01-31T12:00:00.5Z"
    raise BadSpec([Violation("filter", problem)])
