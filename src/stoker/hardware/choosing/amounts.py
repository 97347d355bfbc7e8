"""Amounts as people write them: `350M` parameters, `20GB` of memory, `3/h` to spend."""

from __future__ import annotations

import math
import re

from stoker.core.errors import BadSpec, Violation

MOST_PARAMETERS = 1e14
MOST_BYTES = 1e15
MOST_USD = 1e6
_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)"
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_BYTES = {"": 1e9, "gb": 1e9, "g": 1e9, "gib": 2.0**30, "mb": 1e6, "mib": 2.0**20, "tb": 1e12, "tib": 2.0**40}
_HOURS = {"": 1.0, "h": 1.0, "hour": 1.0, "day": 24.0, "d": 24.0, "month": 730.0}


def parameters_of(text: str, field: str = "parameters") -> float:
    """How many parameters: `350M`, `7B`, `1.2e9`. Raises BadSpec."""
    count = _amount(text, _COUNTS, field, "350M, 7B or 1.2e9")
    if count < 1:
        raise _refused(field, f"{_shown(text)}: a model has 1 parameter at least")
    if count > MOST_PARAMETERS:
        raise _refused(
            field, f"{_shown(text)} is more than {MOST_PARAMETERS:.0e}; the largest models known have about 1e12"
        )
    return count


def bytes_of(text: str, field: str = "memory") -> float:
    """How much memory: `20GB`, `500 MB`, `16GiB`; a bare number is GB. Raises BadSpec."""
    size = _amount(text, _BYTES, field, "20GB, 500MB or 16GiB")
    if not 0 < size <= MOST_BYTES:
        raise _refused(field, f"{_shown(text)}: more than 0, and at most {MOST_BYTES / 1e12:g} TB")
    return size


def usd_per_hour_of(text: str, field: str = "budget") -> float:
    """What may be spent: `3/h`, `3`, `50/day`, `1500/month` of use without a pause. Raises BadSpec."""
    plain = re.sub(r"(?i)usd|\$", "", text)
    amount, _, period = plain.partition("/")
    hours = _HOURS.get(period.strip().lower())
    if hours is None:
        raise _refused(field, f"{_shown(text)}: what is spent by the h, the day or the month, such as 3/h")
    usd = _amount(amount, {"": 1.0}, field, "3/h, 50/day or 1500/month")
    if not 0 < usd <= MOST_USD:
        raise _refused(field, f"{_shown(text)}: more than 0 USD, and at most {MOST_USD:g}")
    return usd / hours


def gigabytes(size: float) -> str:
    """So many bytes for people: `21 GB`, `0.35 GB`, `12 MB`."""
    if size < 1e8:
        return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
    return f"{size / 1e9:.3g} GB" if size < 1e12 else f"{size / 1e12:.3g} TB"


def _amount(text: str, units: dict[str, float], field: str, examples: str) -> float:
    found = re.fullmatch(rf"\s*{_NUMBER}\s*([A-Za-z]*)\s*", text)
    unit = units.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise _refused(field, f"{_shown(text)} is no amount; write it as {examples}")
    value = float(found[1]) * unit
    if not math.isfinite(value):
        raise _refused(field, f"{_shown(text)} is too large")
    return value


def _shown(text: str) -> str:
    return repr(text[:40])


def _refused(field: str, why: str) -> BadSpec:
    return BadSpec([Violation(field, why)])
