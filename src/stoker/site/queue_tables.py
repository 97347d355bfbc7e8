"""The queues of a site file and their quotas, with what contradicts itself in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.core.site import DEFAULT_QUEUE, Queue, Quota
from stoker.hardware.accelerators import accelerators, find_accelerator
from stoker.hardware.faults import closest, either
from stoker.hardware.regions import regions
from stoker.scheduling.usage import ALL_ACCELERATORS, VCPUS

from .toml_tables import Table, a_text, a_weight, milli, one_of

QUEUE_NAME = re.compile(r"[a-z0-9_-]{1,63}")
"""What a label can hold, for labels name queues."""

DEVICE_NAME = re.compile(r"[A-Z0-9]+(?:[_.()/-]+[A-Z0-9.()/-]+)+")
"""What this machine calls a GPU that no table has: its driver's name in capitals, of two words or more."""

_COHORT = re.compile(r"[A-Za-z0-9_.-]{1,63}")


def read_queues(table: Table, policies: Iterable[str], more_regions: Iterable[str]) -> dict[str, Queue]:
    """The queues. One that takes what names none is added if it is missing."""
    queues = {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)}
    for name in table.keys():
        one = table.table(name)
        if not QUEUE_NAME.fullmatch(name):
            one.refuse("", "is not a name of a queue: 1 to 63 lower-case letters, digits, '_' and '-'")
        queues[name] = _read_queue(name, one, policies, more_regions)
    _check_cohorts(queues, table)
    return queues


def _read_queue(name: str, table: Table, policies: Iterable[str], more_regions: Iterable[str]) -> Queue:
    cohort = table.read("cohort", "", a_cohort)
    queue = Queue(
        name=name,
        weight=table.read("weight", 1.0, a_weight),
        cohort=cohort,
        policy=table.read("policy", "", one_of("policy", policies)),
        quotas=_read_quotas(table.table("quota"), bool(cohort), more_regions),
    )
    table.end()
    return queue


def a_cohort(value: Any) -> str:
    """The name of a cohort."""
    if not _COHORT.fullmatch(a_text(value)):
        raise ValueError("is not a name of a cohort: 1 to 63 letters, digits, '_', '-' and '.'")
    return str(value)


def _read_quotas(table: Table, has_cohort: bool, more_regions: Iterable[str]) -> dict[str, Quota]:
    quotas: dict[str, Quota] = {}
    said_at: dict[str, str] = {}
    for key in table.keys():
        quota = _read_quota(table, key, has_cohort)
        try:
            resource = a_resource(key, more_regions)
        except ValueError as error:
            table.refuse(key, str(error))
            continue
        if resource in quotas:
            table.refuse(
                key, f"is {resource}, which line {table.line(said_at[resource])} has already: keep one of them"
            )
        quotas[resource], said_at[resource] = quota, key
    return quotas


def _read_quota(table: Table, key: str, has_cohort: bool) -> Quota:
    """A number, which is the queue's own, or a table of it with what may be borrowed and lent."""
    if table.read(key, False, lambda value: isinstance(value, dict)):
        return _read_whole_quota(table.table(key), has_cohort)
    return Quota(nominal_milli=table.read(key, 0, milli))


def _read_whole_quota(parts: Table, has_cohort: bool) -> Quota:
    if "nominal" not in parts:
        parts.refuse("", "needs `nominal`: how much of it is the queue's own")
    nominal = parts.read("nominal", 0, milli)
    borrowing = parts.read("borrowing", None, _maybe_milli)
    lending = parts.read("lending", None, _maybe_milli)
    parts.end()
    for part in ("borrowing", "lending"):
        if part in parts and not has_cohort:
            parts.refuse(part, "without a cohort there is nobody to borrow from or lend to: give the queue a `cohort`")
    if lending is not None and lending > nominal and "nominal" in parts:
        problem = f"lends {lending / 1000:g} of {nominal / 1000:g}: lending is a part of nominal, so at most that"
        parts.refuse("lending", problem)
    return Quota(nominal_milli=nominal, borrowing_milli=borrowing, lending_milli=lending)


def _maybe_milli(value: Any) -> int | None:
    return milli(value)


def a_resource(text: str, more_regions: Iterable[str] = ()) -> str:
    """`t4@us-central1` → `NVIDIA_TESLA_T4@us-central1`. Raises ValueError."""
    name, at, region = text.partition("@")
    known = [*regions(), *more_regions]
    if at and region not in known:
        near = closest(region, known)
        raise ValueError(
            f"names no region: {region[:60]!r}; " + (f"use {either(near)}" if near else "stoker regions lists them")
        )
    return f"{_device(name)}{at}{region}"


def _device(name: str) -> str:
    if name.upper() in (ALL_ACCELERATORS, VCPUS):
        return name.upper()
    found = find_accelerator(name)
    if found is not None:
        return found.name
    if DEVICE_NAME.fullmatch(name):
        return name
    short = {known.removeprefix("NVIDIA_").removeprefix("TESLA_"): known for known in accelerators()}
    near = closest(name, [*short, *accelerators(), ALL_ACCELERATORS, VCPUS])
    hint = (
        f"use {either(near)}" if near else "stoker accelerators lists them; GPU is all of them together, CPU is vCPUs"
    )
    raise ValueError(f"{name[:60]!r} is not an accelerator, nor GPU or CPU; {hint}")


def _check_cohorts(queues: Mapping[str, Queue], table: Table) -> None:
    members: dict[str, list[str]] = {}
    for queue in queues.values():
        if queue.cohort:
            members.setdefault(queue.cohort, []).append(queue.name)
    for cohort, (first, *others) in members.items():
        if not others:
            near = closest(cohort, [name for name in members if name != cohort])
            hint = f"did you mean {either(near)}?" if near else "name it in another queue, or leave it out"
            table.table(first).refuse("cohort", f"nobody else is in the cohort {cohort!r}; {hint}")
