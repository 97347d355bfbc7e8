"""The table of a result: one row a figure, one column a policy, each beside what no scheduler can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row."""

    name: str
    path: str  # in a policy's part of the result
    form: str  # seconds, share, ratio, number
    ratio: str = ""  # where the ratio to its bound is
    bound: str = ""  # where the bound is
    help: str = ""


FIGURES = (
    Figure(
        "average JCT",
        "metrics.jct_seconds.mean",
        "seconds",
        "metrics.average_jct_ratio",
        "bounds.average_jct_seconds",
        "job completion time: end less submission",
    ),
    Figure("p90 JCT", "metrics.jct_seconds.p90", "seconds"),
    Figure("p99 JCT", "metrics.jct_seconds.p99", "seconds"),
    Figure("average wait", "metrics.wait_seconds.mean", "seconds", help="JCT less the run time alone"),
    Figure("p90 wait", "metrics.wait_seconds.p90", "seconds"),
    Figure("p99 wait", "metrics.wait_seconds.p99", "seconds"),
    Figure(
        "bounded slowdown",
        "metrics.bounded_slowdown.mean",
        "number",
        help="mean of JCT / run time, a run counted as 10 s at least",
    ),
    Figure(
        "makespan",
        "metrics.makespan_seconds",
        "seconds",
        "metrics.makespan_ratio",
        "bounds.makespan_seconds",
        "the end of the last job, from 0",
    ),
    Figure(
        "allocation", "metrics.allocated_share", "share", help="of all GPUs over the makespan, held by some attempt"
    ),
    Figure("utilisation", "metrics.utilisation", "share", help="the same, restarts and lost work not counted"),
    Figure(
        "fragmentation",
        "metrics.fragmentation",
        "share",
        help="of the idle GPUs, those of no use to the typical jobs of the trace",
    ),
    Figure(
        "worst FTF",
        "metrics.ftf.largest",
        "number",
        help="finish-time fairness: JCT / (run time × max(1, jobs / GPUs))",
    ),
    Figure("unfair", "metrics.unfair_share", "share", help="jobs with an FTF above 1.05"),
    Figure("preemptions per job", "metrics.preemptions_per_job", "number"),
    Figure("failures per job", "metrics.failures_per_job", "number"),
    Figure("refused", "jobs.refused", "count", help="jobs that no node could ever hold; in no other figure"),
    Figure("unfinished", "jobs.unfinished", "count", help="jobs that did not end; in no other figure"),
)


def label(policy: Found) -> str:
    """How a policy is called, with what sets its row apart."""
    return f"{policy['policy']} (run times: known)" if policy["run_times"] == "known" else str(policy["policy"])


def labels(result: Found) -> list[str]:
    """The columns."""
    return [label(policy) for policy in result["policies"]]


def rows(result: Found) -> list[list[str]]:
    """The figures as text: name, one for each policy with its ratio to the bound, the bound."""
    found = []
    for figure in FIGURES:
        cells = [cell(figure, policy) for policy in result["policies"]]
        bounds = [pick(policy, figure.bound) for policy in result["policies"] if figure.bound]
        found.append([figure.name, *cells, said(min(bounds), figure.form) if bounds else ""])
    return found


def cell(figure: Figure, policy: Found) -> str:
    """One figure of one policy, with its ratio to the bound where it has one."""
    text = said(pick(policy, figure.path), figure.form)
    return f"{text} ({pick(policy, figure.ratio):.3f})" if figure.ratio else text


def pick(policy: Found, path: str) -> float:
    """The value at a path such as metrics.jct_seconds.mean."""
    value: Any = policy
    for name in path.split("."):
        value = value[name]
    return float(value)


def said(value: float, form: str) -> str:
    """A figure as people read it."""
    match form:
        case "seconds":
            return seconds(value)
        case "share":
            return f"{100 * value:.2f} %"
        case "count":
            return f"{value:,.0f}"
        case _:
            return f"{value:,.2f}"


def seconds(value: float) -> str:
    """`42.0s`, `6m12s`, `3h05m`, `12d04h`."""
    whole = round(abs(value))
    sign = "-" if value < 0 else ""
    if abs(value) < 60:
        return f"{value:.1f}s"
    if whole < 3600:
        return f"{sign}{whole // 60}m{whole % 60:02d}s"
    if whole < 2 * 86400:
        return f"{sign}{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{sign}{whole // 86400}d{whole % 86400 // 3600:02d}h"


def queue_rows(policy: Found) -> list[Sequence[str]]:
    """The figures of each queue of the trace."""
    return [
        (
            queue or "(no queue)",
            f"{summary['jobs']:,}",
            f"{summary['gpu_hours']:,.1f}",
            seconds(summary["jct_seconds"]["mean"]),
            seconds(summary["wait_seconds"]["mean"]),
            seconds(summary["wait_seconds"]["p90"]),
            said(summary["unfair_share"], "share"),
        )
        for queue, summary in sorted(policy["queues"].items())
    ]


QUEUE_HEADERS = ("queue", "jobs", "GPU-hours", "average JCT", "average wait", "p90 wait", "unfair")
