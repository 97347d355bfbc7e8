"""Numbers as a screen shows them: few digits, a unit, and an empty text for what is not known."""

from __future__ import annotations

import math

_UNITS = ("B", "kB", "MB", "GB", "TB")


def percent(value: float | None) -> str:
    """`91 %`."""
    return "" if value is None or not math.isfinite(value) else f"{value:.0f} %"


def share(ratio: float | None) -> str:
    """`0.91` as `91 %`."""
    return percent(None if ratio is None else 100 * ratio)


def of(value: float | None, whole: float | None, unit: float, name: str) -> str:
    """A part of a whole, both in a unit: `41.2/80 GiB`."""
    if value is None:
        return ""
    return (
        f"{_three(value / unit)} {name}" if whole is None else f"{_three(value / unit)}/{_three(whole / unit)} {name}"
    )


def celsius(value: float | None) -> str:
    """`62 °C`."""
    return "" if value is None else f"{value:.0f} °C"


def speed(bytes_per_second: float | None) -> str:
    """`1.2 MB/s`."""
    if bytes_per_second is None:
        return ""
    power = 0
    while bytes_per_second >= 999.5 and power < len(_UNITS) - 1:
        bytes_per_second, power = bytes_per_second / 1000, power + 1
    return f"{_three(bytes_per_second) if power else round(bytes_per_second)} {_UNITS[power]}/s"


def number(value: float | None) -> str:
    """Four digits: `4.512`, `0.01234`, `1.235e+06`."""
    if value is None:
        return ""
    return f"{value:.4g}" if not math.isfinite(value) or abs(value) < 1e6 else f"{value:.3e}"


def counted(count: float, what: str) -> str:
    """`1 replica`, `8 GPUs`, `0.5 GPUs`."""
    return f"{count:g} {what}{'' if count == 1 else 's'}"


def _three(value: float) -> str:
    """Three digits, and never with an exponent."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
