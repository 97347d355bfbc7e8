"""Outlooks as they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.job import Placement
from stoker.insight.outlook import Holder, Interval, Outlook, QuotaUse, Runs, Start, WhatIf

from .schemas import outlook as rows

NOTHING = Outlook(at=0.0, position=0)
"""What is known of the future of a job that has none, or while too many ask."""


def moments(interval: Interval) -> rows.Moments:
    """An interval of moments."""
    return {"low": interval.low, "middle": interval.middle, "high": interval.high}


def starts_row(start: Start | None) -> rows.Starts | None:
    """When a job will start."""
    return _starts(start) if start is not None else None


def lasts_row(runs: Runs | None) -> rows.Lasts | None:
    """How long a job will run."""
    if runs is None:
        return None
    seconds = runs.seconds
    return {
        "low": seconds.low,
        "middle": seconds.middle,
        "high": seconds.high,
        "known_runs": runs.known_runs,
        "basis": runs.basis,
    }


def holder_row(holder: Holder) -> rows.Holder:
    """Who holds what another could use."""
    return {
        "job": holder.job,
        "accelerators": holder.accelerators,
        "since": holder.since,
        "ends": moments(holder.ends),
        "basis": holder.basis,
    }


def quota_row(quota: QuotaUse | None) -> rows.QuotaUse | None:
    """What a queue holds."""
    if quota is None:
        return None
    return {
        "queue": quota.queue,
        "resource": quota.resource,
        "held": quota.held,
        "own": quota.own,
        "asked": quota.asked,
    }


def what_if_rows(outlook: Outlook) -> list[rows.WhatIf]:
    """What would start a job sooner."""
    return [_what_if(found, outlook.start) for found in outlook.what_if]


def place_rows(placements: Sequence[Placement]) -> list[rows.Place]:
    """Where a gang goes, by role and node."""
    found: dict[tuple[str, str], rows.Place] = {}
    for place in placements:
        row = found.setdefault(
            (place.role, place.node), {"role": place.role, "replicas": 0, "node": place.node, "devices": []}
        )
        row["replicas"] += 1
        row["devices"] += place.devices
    return list(found.values())


def _starts(start: Start) -> rows.Starts:
    return {
        "at": moments(start.at),
        "draws": start.draws,
        "not_started": start.not_started,
        "played_until": start.played_until,
        "basis": start.basis,
        "waits_for": start.waits_for,
    }


def _what_if(found: WhatIf, start: Start | None) -> rows.WhatIf:
    then, otherwise = found.start.at.middle, start.at.middle if start else None
    return {
        "change": found.change,
        "asked": found.asked,
        "instead": found.instead,
        "text": found.text,
        "starts": _starts(found.start),
        "sooner_seconds": None if then is None or otherwise is None else otherwise - then,
    }
