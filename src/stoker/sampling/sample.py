"""A machine at one moment, and how it is written on a line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.gpu.device import Device
from stoker.gpu.reading import Fault, GpuProcess, Reading, Xid

_MOST_DIGITS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was found at one moment."""

    at: float  # in seconds since the epoch
    host: Mapping[str, float] = field(default_factory=dict)
    gpus: Sequence[Reading] = ()
    processes: Sequence[GpuProcess] | None = None  # None: they were not asked for
    errors: Sequence[Xid] = ()


def to_line(sample: Sample) -> str:
    """The sample as JSON, on one line."""
    told: dict[str, Any] = {"at": round(sample.at, 3), "host": _rounded(sample.host)}
    if sample.gpus:
        told["gpus"] = [
            {
                "device": {name: value for name, value in asdict(found.device).items() if value not in ("", None)},
                "values": _rounded(found.values),
                **({"fault": str(found.fault), "problem": found.problem} if found.fault else {}),
            }
            for found in sample.gpus
        ]
    if sample.processes is not None:
        told["processes"] = [asdict(found) for found in sample.processes]
    if sample.errors:
        told["errors"] = [asdict(found) for found in sample.errors]
    return json.dumps(told, separators=(",", ":"))


def from_line(line: str | bytes) -> Sample:
    """The sample of a line. Raises ValueError for what is none: it may come from another machine."""
    try:
        told = json.loads(line)
        return Sample(
            at=_moment(told["at"]),
            host=_numbers(told.get("host", {})),
            gpus=[_reading(found) for found in told.get("gpus", ())],
            processes=[GpuProcess(**found) for found in told["processes"]] if "processes" in told else None,
            errors=[Xid(**found) for found in told.get("errors", ())],
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a sample: {error!r}") from None


def _reading(told: Mapping[str, Any]) -> Reading:
    fault = told.get("fault")
    return Reading(
        device=Device(**told["device"]),
        values=_numbers(told["values"]),
        fault=Fault(fault) if fault else None,
        problem=str(told.get("problem", ""))[:1000],
    )


def _moment(at: Any) -> float:
    found = float(at)
    if not 0 <= found < 1e11:
        raise ValueError(f"not a moment: {at!r}")
    return found


def _numbers(told: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in told.items() if math.isfinite(float(value))}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """No more digits than are of use; counters, which are whole, keep theirs."""
    return {
        name: value if value == int(value) else float(f"{value:.{_MOST_DIGITS}g}") for name, value in values.items()
    }
