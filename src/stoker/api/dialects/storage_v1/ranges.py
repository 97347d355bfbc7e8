"""`Range` of downloads and `Content-Range` of uploads."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.core.errors import BadRange, BadSpec, Violation

_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)
_CONTENT_RANGE = re.compile(r"bytes\s+(?:(\d{1,18})-(\d{1,18})|\*)/(?:(\d{1,18})|\*)\s*", re.IGNORECASE)


def read_range(header: str, size: int) -> tuple[int, int] | None:
    """The bytes that are wanted of a file, as first and end; None: all. Raises BadRange for bytes that it does not have.

    What is not a range, or several, is ignored, as HTTP has it: who asks gets all.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        first, end = max(0, size - int(match[2])), size
    else:
        first, end = int(match[1]), min(size, int(match[2]) + 1) if match[2] else size
        if match[2] and int(match[2]) < first:
            return None
    if first >= size:
        raise BadRange(f"{header[:80]!r} asked, and there are {size} bytes")
    return first, end


@dataclass(frozen=True, slots=True)
class ContentRange:
    """Which bytes a request brings, from `first` up to `end`, and of how many in all; None: that is not known yet."""

    first: int
    end: int
    total: int | None

    @property
    def is_question(self) -> bool:
        """Whether it brings none, and only asks how far we are."""
        return self.end == self.first


def read_content_range(header: str) -> ContentRange:
    """`bytes 0-99/200`, `bytes 0-99/*`, `bytes */200`, `bytes */*`. Raises BadSpec."""
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None:
        wanted = "bytes FIRST-LAST/TOTAL, bytes FIRST-LAST/*, bytes */TOTAL or bytes */*"
        raise BadSpec([Violation("Content-Range", f"{header[:80]!r} is not {wanted}")])
    total = int(match[3]) if match[3] else None
    if match[1] is None:
        return ContentRange(0, 0, total)
    first, end = int(match[1]), int(match[2]) + 1
    if end <= first or (total is not None and end > total):
        raise BadSpec([Violation("Content-Range", f"{header[:80]!r}: there are no such bytes")])
    return ContentRange(first, end, total)
