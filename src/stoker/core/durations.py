"""How long something takes, as people write it: `90s`, `30m`, `1h`, `2d`; a number alone is seconds."""

from __future__ import annotations

import math
import re

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smhd]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """`30m` → 1800. Raises ValueError that says how to write it."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a duration: write 90s, 30m, 1h or 2d")
    return float(found[1]) * _SECONDS[found[2]]


def duration_of(seconds: float) -> str:
    """Seconds as a label may hold them, which has no point: `1800s`."""
    return f"{math.ceil(seconds)}s"


def checkpoints_of(text: str) -> str:
    """How often to save, as a job has it: `auto`, `none`, or the seconds of a duration. Raises ValueError for anything else."""
    if text in ("auto", "none"):
        return text
    try:
        seconds = seconds_of(text)
    except ValueError as error:
        raise ValueError(f"auto, none, or a time: {error}") from None
    if not seconds:
        raise ValueError("0 is not a time between two checkpoints: write auto, none, or a time such as 10m")
    return f"{seconds:g}"
