"""What lies before a job, in lines for people: local time, durations in words, one thing a line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_SOON_SECONDS = 600.0
_MOST_NAMED = 4
_MOST_PLACES = 6


def duration(seconds: float) -> str:
    """In words: `40 s`, `5 min`, `3 h 10 min`, `2 days 4 h`."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 600:
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    hours = round(minutes / 60)
    if hours < 48:
        return f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours and days < 7 else f"{days} days"


def clock(moment: float, now: float) -> str:
    """The local time: `14:10`, `tomorrow 09:30`, `Tue 24 Nov 09:30`, and with seconds where these count."""
    there, here = time.localtime(moment), time.localtime(now)
    if abs(moment - now) < _SOON_SECONDS:
        return time.strftime("%H:%M:%S", there)
    if there[:3] == here[:3]:
        return time.strftime("%H:%M", there)
    if there[:3] == time.localtime(now + 86400)[:3]:
        return "tomorrow " + time.strftime("%H:%M", there)
    if abs(moment - now) < 300 * 86400:
        return time.strftime("%a %d %b %H:%M", there)
    return time.strftime("%d %b %Y", there)


def about(at: Row, now: float) -> str:
    """An interval of moments: `about 14:10 (13:55 to 14:40)`."""
    low, middle, high = at["low"], at["middle"], at["high"]
    if middle is None:
        if low is None and high is not None:
            return f"not known yet; {clock(high, now)} at the latest"
        return f"not before {clock(low, now)}" if low is not None else "not known"
    if middle <= now + 1:
        return "now" if high is not None and high <= now + 1 else "in a moment" + _until(high, now)
    near = f", in {duration(middle - now)}" if middle - now < _SOON_SECONDS else ""
    text = f"about {clock(middle, now)}"
    if high is None:
        return f"{text}{near} ({clock(low, now)} at the earliest; how late is not known)"
    if high - low < max(2.0, 0.02 * (middle - now)):
        return text + near
    return f"{text}{near} ({clock(low, now)} to {clock(high, now)})"


def explained(found: Row, name: str, project: str) -> Iterator[str]:
    """Why a job waits, since when it runs, or how it ended."""
    now, state = found["as_of"], found["state"]
    if state == "QUEUED":
        yield f"{name} waits: {found['text']}." if found["code"] else f"{name} is queued: {found['text']}."
        yield from _waiting(found, project, now)
    elif found["running_since"] is not None:
        yield f"{name} is {state} since {clock(found['running_since'], now)} ({duration(now - found['running_since'])})."
        if found["ends"]:
            basis = found["lasts"]["basis"] if found["lasts"] else "it is being stopped"
            yield f"  ends     {about(found['ends'], now)}; {basis}"
    else:
        ended = f", ended {clock(found['ended_at'], now)}" if found["ended_at"] else ""
        yield f"{name} is {state}{ended}." + (f" {found['text']}" if found["text"] else "")
    for line in diagnosed(found["diagnosis"]):
        yield f"  {line}"
    for attempt in found["attempts"]:
        first = attempt["detail"].splitlines()[0] if attempt["detail"] else ""
        yield f"  attempt {attempt['number']}: {attempt['cause']} {first}".rstrip()
    if state == "FAILED":
        yield f"  → see its output: stoker logs {name}"


def diagnosed(found: Row | None) -> Iterator[str]:
    """What an attempt died of: where, the line that shows it, what to do, and what was decided."""
    if found is None:
        return
    where = f"{found['replica']} on {found['node']}: " if found["replica"] else ""
    yield f"{where}{found['title']} ({found['code']})"
    if found["evidence"]:
        yield f"  {found['evidence']}"
    if found["decision"]:
        yield f"  {found['decision']}"
    if found["fix"]:
        yield f"  → {found['fix']}"


def planned(found: Row) -> Iterator[str]:
    """What would come of a job that was not submitted."""
    now, project = time.time(), found["project"]
    start = found["starts"]
    when = f"would start {_soon(about(start['at'], now), found['is_free'])}" if start else "would be queued"
    if start and _is_unknown(start):
        when = "would wait, how long is not known"
    yield f"{found['name']} {when}." + (f" It would wait: {found['reason']}." if found["reason"] else "")
    yield f"  machines {_machines(found['machines'])}"
    if found["places"]:
        yield f"  places   {_places(found['places'])}"
    if start and not found["is_free"]:
        yield from _starts(start, project, now)
        if found["ahead"]:
            yield f"  behind   {_names(found['ahead'], project)}"
    yield from _lasts(found)
    yield f"  costs    {_cost(found['cost'])}"
    yield from _sooner(found["what_if"], now)
    yield "  Nothing was submitted: leave --dry-run out to do so."


def _waiting(found: Row, project: str, now: float) -> Iterator[str]:
    if found["position"]:
        behind = f", behind {_names(found['ahead'], project)}" if found["ahead"] else ""
        yield f"  place    {found['position']} in the queue{behind}"
    if found["quota"]:
        quota = found["quota"]
        yield (
            f"  quota    {quota['queue']} holds {quota['held']:g} of its {quota['own']:g} {quota['resource']},"
            f" and this one asks for {quota['asked']:g}"
        )
    if found["holders"]:
        yield f"  held by  {_holders(found['holders'], project, now)}"
    if found["starts"]:
        yield f"  starts   {_when(found['starts'], project, now)}"
        yield f"           {found['starts']['basis']}"
    yield from _sooner(found["what_if"], now)
    if found["action"]:
        yield f"  → {found['action']}"


def _is_unknown(start: Row) -> bool:
    """Whether nothing like what it waits for has run here."""
    return start["at"]["middle"] is None and not start["draws"]


def _starts(start: Row, project: str, now: float) -> Iterator[str]:
    yield f"  starts   {_when(start, project, now)}"
    yield f"           {start['basis']}"


def _when(start: Row, project: str, now: float) -> str:
    at = start["at"]
    if _is_unknown(start):
        text = about(at, now)
        return text + (f"; {_name(start['waits_for'], project)} has to end" if start["waits_for"] else "")
    if at["middle"] is None:
        text = f"not before {clock(start['played_until'], now)}: so far it was played"
    else:
        text = about(at, now)
    return text + (f", when {_name(start['waits_for'], project)} ends" if start["waits_for"] else "")


def _sooner(what_if: Sequence[Row], now: float) -> Iterator[str]:
    label = "sooner"
    for found in what_if:
        if found["starts"]["at"]["middle"] is None:
            continue
        sooner = f", {duration(found['sooner_seconds'])} sooner" if found["sooner_seconds"] else ""
        yield f"  {label:8} {found['text']}: {about(found['starts']['at'], now)}{sooner}"
        label = ""


def _lasts(found: Row) -> Iterator[str]:
    lasts, limit = found["lasts"], duration(found["limit_seconds"])
    if lasts is None or not lasts["known_runs"]:
        yield f"  runs     how long is not known: nothing like it has run here; {limit} at most"
        return
    spread = f" ({duration(lasts['low'])} to {duration(lasts['high'])})" if lasts["high"] > 1.05 * lasts["low"] else ""
    yield f"  runs     about {duration(lasts['middle'])}{spread}, {lasts['basis']}; {limit} at most"


def _cost(cost: Row) -> str:
    if cost["usd_per_hour"] is None:
        return f"not known: {'; '.join(cost['notes'])}"
    text = f"{_usd(cost['usd_per_hour'])} an hour"
    if cost["middle_usd"] is not None:
        low, middle, high = (_usd(cost[name]) for name in ("low_usd", "middle_usd", "high_usd"))
        text += f", about {middle} in all" + (f" ({low} to {high})" if low != high else "")
    else:
        text += f", at most {_usd(cost['at_most_usd'])} by its limit"
    notes = "".join(f"; {note}" for note in cost["notes"])
    return f"{text}, as Google Cloud sells it (prices of {cost['price_as_of']}{notes})"


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${amount:.4f}"


def _machines(machines: Sequence[Row]) -> str:
    parts = []
    for machine in machines:
        size = machine["machine_type"] or f"{machine['vcpus']:g} vCPU"
        gpus = f" + {machine['accelerators']:g} {machine['accelerator']}" if machine["accelerators"] else ""
        parts.append(f"{machine['count']} {machine['role']} on {size}{gpus}")
    return " · ".join(parts)


def _places(places: Sequence[Row]) -> str:
    parts = []
    for place in places[:_MOST_PLACES]:
        devices = f" ({', '.join(place['devices'])})" if place["devices"] and len(place["devices"]) <= 8 else ""
        count = f"{place['replicas']} " if place["replicas"] > 1 else ""
        parts.append(f"{count}{place['role']} on {place['node']}{devices}")
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return " · ".join(parts) + more


def _holders(holders: Sequence[Row], project: str, now: float) -> str:
    parts = []
    for holder in holders[:_MOST_NAMED]:
        gpus = f"{holder['accelerators']:g} GPU{'' if holder['accelerators'] == 1 else 's'}, "
        parts.append(
            f"{_name(holder['job'], project)} ({gpus if holder['accelerators'] else ''}ends {about(holder['ends'], now)})"
        )
    more = f" and {len(holders) - _MOST_NAMED} more" if len(holders) > _MOST_NAMED else ""
    return ("\n" + " " * 11).join(parts) + more


def _names(jobs: Sequence[str], project: str) -> str:
    more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
    return ", ".join(_name(job, project) for job in jobs[:_MOST_NAMED]) + more


def _name(job: str, project: str) -> str:
    """Without the project, where that is the one that is asked about."""
    return job.removeprefix(f"{project}/")


def _soon(when: str, is_free: bool) -> str:
    """One that is not free to go is not there yet, however near that is."""
    return "in a moment" if when == "now" and not is_free else when


def _until(high: float | None, now: float) -> str:
    return ", or later" if high is None else f", or until {clock(high, now)}"
