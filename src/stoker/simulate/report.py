"""The report of a result: one HTML page by itself, without a program in it, for the screen and for paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import axes, plots
from .figures import FIGURES, QUEUE_HEADERS, label, labels, pick, queue_rows, rows, seconds
from .markup import Markup, joined, table, tag

Found = Mapping[str, Any]
MOST_QUEUES = 7  # in a plot; what the others hold is shown as one
STYLE = (
    """\
:root{color-scheme:light dark;--ink:#1c2430;--faint:#5c6675;--grid:#e3e7ec;--paper:#fff;--soft:#f5f7f9}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--faint:#9aa5b4;--grid:#2b3340;--paper:#151a21;--soft:#1c222b}}
@media print{:root{--ink:#000;--faint:#444;--grid:#ccc;--paper:#fff;--soft:#fff}body{font-size:10px}figure{break-inside:avoid}}
*{box-sizing:border-box}body{margin:0 auto;padding:24px;max-width:1360px;background:var(--paper);color:var(--ink);
font:14px/1.5 system-ui,sans-serif}h1{font-size:22px;margin:0}h2{font-size:16px;margin:32px 0 8px}
p{margin:4px 0;color:var(--faint)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:12px 0;padding:12px 16px;background:var(--soft);
border-radius:8px}dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}code{font:12px ui-monospace,monospace}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:4px 14px 4px 0;
border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}th:first-child{text-align:left;padding-right:24px}
th{font-weight:500}thead th{font-weight:600;border-bottom-color:var(--faint)}tbody tr:hover{background:var(--soft)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:28px 32px}figure{margin:0}
abbr{text-decoration:underline dotted;text-underline-offset:3px}
"""
    + plots.STYLE
)


def report(result: Found) -> str:
    """The whole page."""
    trace = result["trace"]
    title = f"{trace['name']}: {', '.join(labels(result))}"
    body = tag(
        "body",
        tag("h1", title),
        tag("p", f"{trace['jobs']:,} jobs replayed on {result['nodes']['gpus']:,} GPUs by stoker {result['stoker']}"),
        _statement(result),
        tag("h2", "Figures"),
        _figures(result),
        tag("p", "In brackets: how many times the bound, which no scheduler can beat; 1 is perfect."),
        tag("h2", "Plots"),
        tag("div", *(tag("figure", plot) for plot in pictures(result).values()), kind="plots"),
        *_queues(result),
        tag("h2", "Rules"),
        *_rules(result),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, body, lang="en")) + "\n"


def pictures(result: Found) -> dict[str, Markup]:
    """Every plot, by a name for its file."""
    policies = result["policies"]
    end = max(policy["timeline"]["edges_seconds"][-1] for policy in policies)
    time = axes.of_time(end)

    def over_time(what: str) -> list[plots.Series]:
        return [plots.Series(label(p), _points(p["timeline"], p["timeline"][what])) for p in policies]

    def share_at(at: float, value: float) -> str:
        return f"{100 * value:.1f} % about {seconds(at)}"

    waiting = over_time("waiting_jobs")
    most = max(value for one in waiting for _, value in one.points)
    shares, counts = axes.of_shares("of all GPUs"), axes.of_counts(most, "jobs")
    unusable = over_time("unusable_share")
    few = axes.of_shares("of all GPUs", max(value for one in unusable for _, value in one.points))
    found = {
        "allocation": plots.lines("Allocation", over_time("allocated_share"), time, shares, share_at),
        "queue-length": plots.lines(
            "Queue length", waiting, time, counts, lambda at, value: f"{value:,.1f} jobs wait about {seconds(at)}"
        ),
        "wait": _waits(policies),
        "jct": _completions(policies),
        "unusable": plots.lines("Idle, and of no use to typical jobs", unusable, time, few, share_at),
    }
    if len({queue for policy in policies for queue in policy["queues"]}) > 1:
        for n, policy in enumerate(policies):
            found[f"queues-{n}"] = _held(policy, _by_size(policies), result["nodes"]["gpus"], time)
    return found


def _points(timeline: Found, values: Sequence[float]) -> list[tuple[float, float]]:
    edges = timeline["edges_seconds"]
    return [((low + high) / 2, value) for low, high, value in zip(edges, edges[1:], values, strict=False)]


def _waits(policies: Sequence[Found]) -> Markup:
    series = []
    for policy in policies:
        quantiles = policy["quantiles"]["wait_seconds"]
        shares = {max(wait, 1.0): n / (len(quantiles) - 1) for n, wait in enumerate(quantiles)}
        points = [*shares.items()]
        series.append(plots.stairs(plots.Series(label(policy), points)))
    longest = max(x for one in series for x, _ in one.points)
    across = axes.of_spans(1.0, longest, "wait, logarithmic; up to a second at the left edge")
    up = axes.of_shares("of the jobs have waited no longer")
    return plots.lines("Wait", series, across, up, lambda x, y: f"{100 * y:.1f} % waited at most {seconds(x)}")


def _completions(policies: Sequence[Found]) -> Markup:
    def quantile(policy: Found, share: float) -> float:
        found = policy["quantiles"]["jct_seconds"]
        return float(found[round(share * (len(found) - 1))])

    bound = min(pick(policy, "bounds.average_jct_seconds") for policy in policies)
    rows: list[tuple[str, Sequence[float], float | None]] = [
        ("mean", [pick(policy, "metrics.jct_seconds.mean") for policy in policies], bound),
        ("median", [quantile(policy, 0.5) for policy in policies], None),
        ("p90", [pick(policy, "metrics.jct_seconds.p90") for policy in policies], None),
        ("p99", [pick(policy, "metrics.jct_seconds.p99") for policy in policies], None),
    ]
    return plots.dots("Job completion time", rows, [label(policy) for policy in policies], seconds)


def _by_size(policies: Sequence[Found]) -> list[str]:
    """The queues, by what they held under all policies: each has one colour throughout."""
    sizes: dict[str, float] = {}
    for policy in policies:
        for queue, values in policy["timeline"]["queue_gpus"].items():
            sizes[queue] = sizes.get(queue, 0.0) + sum(values)
    return sorted(sizes, key=lambda queue: (-sizes[queue], queue))


def _held(policy: Found, queues: Sequence[str], gpus: int, time: axes.Axis) -> Markup:
    """What each queue held, the largest ones apart."""
    timeline = policy["timeline"]
    nothing = [0.0] * (len(timeline["edges_seconds"]) - 1)
    held = [[value / gpus for value in timeline["queue_gpus"].get(queue, nothing)] for queue in queues]
    series = [
        plots.Series(queue or "(no queue)", _points(timeline, values))
        for queue, values in list(zip(queues, held, strict=True))[:MOST_QUEUES]
    ]
    if len(queues) > MOST_QUEUES:
        others = [sum(values) for values in zip(*held[MOST_QUEUES:], strict=True)]
        series.append(plots.Series(f"{len(queues) - MOST_QUEUES} more", _points(timeline, others)))
    shares = axes.of_shares("of all GPUs held by each queue")
    return plots.areas(f"Queues under {label(policy)}", series, time, shares, lambda value: f"{100 * value:.1f} %")


def _figures(result: Found) -> Markup:
    helps = {figure.name: figure.help for figure in FIGURES}
    found: list[list[object]] = [
        [tag("abbr", name, title=helps[name]) if helps[name] else name, *cells] for name, *cells in rows(result)
    ]
    return table(("", *labels(result), "bound"), found)


def _statement(result: Found) -> Markup:
    """What was replayed, on what, and what was assumed."""
    trace, nodes, model = result["trace"], result["nodes"], result["model"]
    failures = model["node_failures"]
    lines: dict[str, object] = {
        "trace": joined(
            trace["name"], ", from ", tag("code", trace["file"]), " sha256 ", tag("code", trace["sha256"] or "unknown")
        ),
        "zero": trace["time_zero"] or "as the trace counts",
        "window": ", ".join(f"{key} {value}" for key, value in trace["window"].items()) or "all of it",
        "left out": "; ".join(f"{count:,} rows: {why}" for why, count in trace["dropped_rows"].items()) or "nothing",
        "notes": "; ".join(trace["notes"]) or "none",
        "nodes": f"{', '.join(nodes['shapes'])}: {nodes['count']:,} nodes, {nodes['gpus']:,} GPUs",
        "run times": f"{model['run_times']} (that is what the scheduler goes by)",
        "interruptions": f"{model['restart_seconds']:g} s for a restart, {model['lost_seconds']:g} s of work lost;"
        f" {100 * model['resumable_share']:g} % of the jobs go on from a checkpoint, the others begin anew",
        "node failures": "none"
        if failures is None
        else f"every {seconds(failures['mean_seconds_between'])} for each node on average,"
        f" repaired in {seconds(failures['repair_seconds'])}",
        "seed": model["seed"],
        "ties": model["ties"],
    }
    return tag("dl", *(joined(tag("dt", name), tag("dd", value)) for name, value in lines.items()))


def _queues(result: Found) -> Iterator[Markup]:
    for policy in result["policies"]:
        if len(policy["queues"]) > 1:
            yield tag("h2", f"Queues of the trace under {label(policy)}")
            yield table(QUEUE_HEADERS, [list(row) for row in queue_rows(policy)])


def _rules(result: Found) -> Iterator[Markup]:
    """What each policy ran under."""
    keys = ("placer", "backfill", "head_seconds", "share_by", "half_life_seconds", "defrag", "run_times")
    rows: list[list[object]] = [
        [key.replace("_", " "), *(policy[key] for policy in result["policies"])] for key in keys
    ]
    rows.append(["policy options", *(_pairs(policy["policy_options"]) for policy in result["policies"])])
    for key in result["policies"][0]["preemption"]:
        rows.append([f"preemption: {key.replace('_', ' ')}", *(p["preemption"][key] for p in result["policies"])])
    rows.append(["queues of the site", *(", ".join(policy["site_queues"]) for policy in result["policies"])])
    yield table(("", *labels(result)), rows)


def _pairs(options: Found) -> str:
    return ", ".join(f"{key} = {value}" for key, value in options.items()) or "as they come"
