"""What a change of rules would have done, as JSON, and as a page by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from stoker import __version__
from stoker.core.ids import split_job_id
from stoker.core.node import Node
from stoker.core.site import Site

from . import axes, plots
from .figures import seconds
from .markup import Markup, joined, table, tag
from .past import Past
from .report import STYLE
from .results import shapes
from .time_machine import ASSUMPTIONS, Share, Shift, TwoReplays, missing_queues
from .timeline import Timeline

Found = Mapping[str, Any]
HEADERS = ("jobs", "GPU-hours", "wait before", "wait after", "change", "last end")


def answer(past: Past, new: Site, nodes: Sequence[Node], found: TwoReplays) -> dict[str, Any]:
    """Everything, as JSON. Times are seconds since 1970, waits are averages in seconds."""
    gain, lose = found.extremes()
    return {
        "schema_version": 1,
        "stoker": __version__,
        "jobs": len(found.shifts),
        "since": past.zero,
        "is_whole": past.is_whole,
        "left_out": {
            **past.left_out,
            **_counted("fit on no present node", len(found.fits_not_before)),
            **_counted("fit on no node of the new cluster", len(found.fits_not_after)),
            **_counted("never end in one of the replays", _never(past, found)),
        },
        "no_longer_fit": list(found.fits_not_after),
        "queues_not_in_the_new_rules": dict(missing_queues(past, new)),
        "before": {"policy": past.site.policy, "placer": past.site.placer, "nodes": shapes(past.nodes)},
        "after": {"policy": new.policy, "placer": new.placer, "nodes": shapes(nodes)},
        "preemptions": {"before": found.preemptions_before, "after": found.preemptions_after},
        "calibration": None if found.calibration is None else asdict(found.calibration),
        "queues": [_share(share, past.zero) for share in found.queues],
        "users": [_share(share, past.zero) for share in found.users],
        "gain": [_shift(shift) for shift in gain],
        "lose": [_shift(shift) for shift in lose],
        "assumptions": list(ASSUMPTIONS),
    }


def share_cells(share: Found) -> list[str]:
    """The cells of a queue or a user, under HEADERS."""
    return [
        f"{share['jobs']:,}",
        f"{share['gpu_hours']:,.1f}",
        seconds(share["wait_before"]),
        seconds(share["wait_after"]),
        changed(share["wait_after"] - share["wait_before"], "less", "more"),
        changed(share["finish_after"] - share["finish_before"], "earlier", "later"),
    ]


def changed(difference: float, below: str, above: str) -> str:
    """`3m10s less`, or `same` for what nobody would notice."""
    return "same" if abs(difference) < 0.5 else f"{seconds(abs(difference))} {below if difference < 0 else above}"


def calibration_said(calibration: Found | None) -> str:
    """How far a replay is to be believed."""
    if calibration is None:
        return "no job has ended yet, so the replay cannot be held against what really happened"
    return (
        f"the replay under the present rules against what really happened, {calibration['jobs']:,} jobs: average wait"
        f" {seconds(calibration['replayed_wait'])}, in fact {seconds(calibration['real_wait'])};"
        f" half of the ends are less than {seconds(calibration['median_miss'])} off"
    )


def report(found: Found, before: Timeline, after: Timeline) -> str:
    """The page."""
    title = "These jobs under other rules"
    body = tag(
        "body",
        tag("h1", title),
        tag("p", f"{found['jobs']:,} jobs of this site, replayed by stoker {found['stoker']}"),
        tag("dl", *(joined(tag("dt", name), tag("dd", text)) for name, text in _statement(found))),
        *_shares("Queues", "queue", found["queues"]),
        *_shares("Users", "user", found["users"]),
        *_shifts("Gain most", found["gain"]),
        *_shifts("Lose most", found["lose"]),
        tag("h2", "Over time"),
        tag("div", *(tag("figure", plot) for plot in _plots(before, after)), kind="plots"),
        tag("h2", "What is assumed"),
        tag("ul", *(tag("li", text) for text in found["assumptions"])),
    )
    head = tag("head", tag("meta", charset="utf-8"), tag("title", title), tag("style", Markup(STYLE)))
    return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, body, lang="en")) + "\n"


def _statement(found: Found) -> Iterable[tuple[str, str]]:
    for name in ("before", "after"):
        side = found[name]
        yield name, f"policy {side['policy']}, placer {side['placer']}, nodes {', '.join(side['nodes'])}"
    yield (
        "stopped for others",
        f"{found['preemptions']['before']:,} times before, {found['preemptions']['after']:,} after",
    )
    yield "left out", "; ".join(f"{count:,} jobs {why}" for why, count in found["left_out"].items()) or "nothing"
    yield "to be believed?", calibration_said(found["calibration"])


def _shares(title: str, what: str, shares: Sequence[Found]) -> Iterable[Markup]:
    yield tag("h2", title)
    yield table((what, *HEADERS), [[share["name"], *share_cells(share)] for share in shares])


def _shifts(title: str, shifts: Sequence[Found]) -> Iterable[Markup]:
    if shifts:
        rows: list[list[object]] = [
            [shift["name"], shift["owner"], shift["queue"], seconds(shift["wait_before"]), seconds(shift["wait_after"])]
            for shift in shifts
        ]
        yield tag("h2", title)
        yield table(("job", "user", "queue", "wait before", "wait after"), rows)


def _plots(before: Timeline, after: Timeline) -> Iterable[Markup]:
    across = axes.of_time(before.edges_seconds[-1], "the first submission")
    sides = (("before", before), ("after", after))

    def series(what: str) -> list[plots.Series]:
        return [
            plots.Series(name, list(zip(_middles(time.edges_seconds), getattr(time, what), strict=True)))
            for name, time in sides
        ]

    waiting = series("waiting_jobs")
    most = max(value for one in waiting for _, value in one.points)
    yield plots.lines(
        "Queue length",
        waiting,
        across,
        axes.of_counts(most, "jobs"),
        lambda at, value: f"{value:,.1f} jobs wait about {seconds(at)}",
    )
    yield plots.lines(
        "Allocation",
        series("allocated_share"),
        across,
        axes.of_shares("of all GPUs"),
        lambda at, value: f"{100 * value:.1f} % about {seconds(at)}",
    )


def _middles(edges: Sequence[float]) -> list[float]:
    return [(low + high) / 2 for low, high in pairwise(edges)]


def _share(share: Share, zero: float) -> dict[str, Any]:
    found = asdict(share)
    return {**found, "finish_before": zero + share.finish_before, "finish_after": zero + share.finish_after}


def _shift(shift: Shift) -> dict[str, Any]:
    job = shift.past.job
    return {
        "id": job.id,
        "name": split_job_id(job.id)[1],
        "owner": job.owner,
        "queue": job.spec.queue,
        "wait_before": shift.wait_before,
        "wait_after": shift.wait_after,
        "sooner_seconds": shift.gain_seconds,
    }


def _counted(why: str, count: int) -> dict[str, int]:
    return {why: count} if count else {}


def _never(past: Past, found: TwoReplays) -> int:
    return len(past.jobs) - len(found.shifts) - len(found.fits_not_before) - len(found.fits_not_after)
