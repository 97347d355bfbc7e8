"""What a user wants simulated, in the words of the command line, and what is wrong with it, said before anything runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.core.node import Node
from stoker.core.site import Backfill, Site
from stoker.registry import names

from .cluster import nodes_of, nodes_of_text
from .trace import Trace, read_trace

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")
_SECONDS = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A trace, the part of it that is replayed, and what identifies its file."""

    trace: Trace
    sha256: str
    window: Mapping[str, str] = field(default_factory=dict)


def source(path: Path, form: str, start: str, end: str) -> Source:
    """Read a trace, and cut the window out of it. Raises BadSpec or NotFound."""
    if form:
        named("trace format", form, names("traces"))
    whole = read_trace(path, form)
    window = {key: text for key, text in (("from", start), ("to", end)) if text}
    file = path / whole.source if path.is_dir() else path
    trace = replace(_cut(whole, start, end) if window else whole, source=Path(whole.source).name)
    if not trace.jobs:
        what = f"{len(whole.jobs):,} jobs, none of them from {start or 'its zero'} to {end or 'its end'}"
        raise BadSpec([Violation("--from/--to" if window else str(path), what if window else "has no jobs")])
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""  # a pipe is read only once
    return Source(trace=trace, sha256=sha256, window=window)


def cluster(text: str, trace: Trace) -> list[Node]:
    """The nodes that were given, or those that the trace has itself."""
    nodes = nodes_of_text(text) if text else nodes_of(trace.nodes)
    if not nodes:
        needs = max(job.gpus_milli for job in trace.jobs) / 1000
        fix = f"give --nodes, such as --nodes 16x8xV100; its largest job wants {needs:g} GPUs"
        raise BadSpec([Violation("--nodes", f"the trace {trace.name} does not say what nodes there were")], fix=fix)
    if not any(node.devices for node in nodes):
        raise BadSpec([Violation("--nodes", "these nodes have no GPU, so there is nothing to measure")])
    return nodes


def sites(base: Site, policies: Iterable[str], placer: str, backfill: str) -> list[Site]:
    """The rules to compare: those of the site, with one thing or another changed. Raises NotFound for names that are none."""
    if placer:
        base = replace(base, placer=named("placer", placer, names("placers")))
    if backfill:
        base = replace(base, backfill=Backfill(named("backfill", backfill, list(Backfill))))
    wanted = list(dict.fromkeys(policies)) or [base.policy]
    for policy in wanted:
        named("policy", policy, names("policies"))
    return [base if policy == base.policy else replace(base, policy=policy, policy_options={}) for policy in wanted]


def named(what: str, text: str, known: Sequence[str]) -> str:
    """A name out of those there are. Raises NotFound with the nearest."""
    if text in known:
        return text
    near = get_close_matches(text.lower(), known, n=1, cutoff=0.4)
    raise NotFound(f"no {what} {text!r}", fix=f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")


def span(text: str, field: str) -> float:
    """`90`, `90s`, `15m`, `12h`, `30d` or `4w` in seconds, above 0. Raises BadSpec."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise BadSpec([Violation(field, f"{text!r} is not a time above 0, such as 90s, 15m, 12h, 30d or 4w")])
    return float(match[1]) * _UNITS[match[2]]


def _cut(trace: Trace, start: str, end: str) -> Trace:
    first = _moment(trace, start, "--from") if start else 0.0
    last = _moment(trace, end, "--to", is_end=True) if end else float("inf")
    if first >= last:
        raise BadSpec([Violation("--from", f"{start or 0} is not before --to {end}")], fix="the other way round?")
    return trace.window(first, last)


def _moment(trace: Trace, text: str, field: str, *, is_end: bool = False) -> float:
    """Seconds from the trace's zero, or a date or a time by its own calendar; a date as an end is meant with its whole day."""
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is neither seconds from the trace's zero nor a date such as 2017-10-02"
        raise BadSpec([Violation(field, problem)]) from None
    try:
        zero = datetime.fromisoformat(trace.time_zero)
    except ValueError:
        problem = f"{trace.name} counts seconds and says no date"
        raise BadSpec([Violation(field, problem)], fix="give seconds from its zero") from None
    if is_end and len(text) <= len("2017-10-02"):
        moment += timedelta(days=1)
    return (moment.replace(tzinfo=zero.tzinfo) - zero).total_seconds()
