"""The result of a study as JSON: everything that says what was replayed and how, and every figure that was found.

The same trace, nodes, rules and seed give the same bytes: there is no wall-clock time in it, and no path of this machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from stoker import __version__
from stoker.core.node import Node
from stoker.core.site import Site

from .metrics import Spread, Summary
from .run import Model
from .study import Outcome
from .trace import Trace

TIES = (
    "Of jobs that a policy holds for equal, who was submitted earlier goes first, then by id. Of nodes that a placer holds for"
    " equal, the first by name is taken, and on it the free devices of the lowest numbers."
)
KNOWN, LEARNED = "known", "learned from ended jobs"
QUANTILES = 200
DIGITS = 9  # that count; so a figure does not depend on the last bit of a sum


def result(
    trace: Trace,
    sha256: str,
    window: Mapping[str, str],
    nodes: Sequence[Node],
    model: Model,
    outcomes: Sequence[Outcome],
) -> dict[str, Any]:
    """All of it."""
    failures = model.failures
    found = {
        "schema_version": 1,
        "stoker": __version__,
        "trace": {
            "name": trace.name,
            "file": trace.source,
            "sha256": sha256,
            "time_zero": trace.time_zero,
            "window": dict(window),
            "jobs": len(trace.jobs),
            "dropped_rows": dict(trace.dropped),
            "notes": list(trace.notes),
        },
        "nodes": {
            "count": len(nodes),
            "gpus": sum(len(node.devices) for node in nodes),
            "shapes": shapes(nodes),
        },
        "model": {
            "restart_seconds": model.costs.restart_seconds,
            "lost_seconds": model.costs.lost_seconds,
            "resumable_share": model.resumable_share,
            "node_failures": None
            if failures is None
            else {"mean_seconds_between": failures.mean_seconds, "repair_seconds": failures.repair_seconds},
            "run_times": KNOWN if model.knows_run_times else LEARNED,
            "seed": model.seed,
            "ties": TIES,
        },
        "policies": [_policy(outcome, model) for outcome in outcomes],
    }
    rounded: dict[str, Any] = _rounded(found)
    return rounded


def text_of(result: Mapping[str, Any]) -> str:
    """As it is written to a file."""
    return json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def shapes(nodes: Sequence[Node]) -> list[str]:
    """How many nodes of which kind, as `--nodes` takes them."""
    counts = Counter((len(node.devices), node.accelerator or "none") for node in nodes)
    return [f"{count}x{gpus}x{accelerator}" for (gpus, accelerator), count in counts.items()]


def _policy(outcome: Outcome, model: Model) -> dict[str, Any]:
    metrics, time = outcome.metrics, outcome.timeline
    waits = [run.ended_at - run.submitted_at - run.run_seconds for run in outcome.runs]
    completions = [run.ended_at - run.submitted_at for run in outcome.runs]
    return {
        **_rules(outcome.site),
        "run_times": KNOWN if model.knows_run_times else LEARNED,
        "jobs": {"ended": metrics.all.jobs, "refused": outcome.refused, "unfinished": outcome.unfinished},
        "metrics": {
            **_summary(metrics.all),
            "average_jct_ratio": metrics.average_jct_ratio,
            "makespan_ratio": metrics.makespan_ratio,
            "utilisation": metrics.utilisation,
            "allocated_share": time.mean_allocated_share,
            "fragmentation": time.mean_fragmentation,
        },
        "bounds": {**asdict(metrics.bounds), "average_jct_seconds": metrics.bounds.average_jct_seconds},
        "queues": {queue: _summary(summary) for queue, summary in metrics.queues.items()},
        "timeline": {
            key: asdict(time)[key]
            for key in ("edges_seconds", "allocated_share", "unusable_share", "waiting_jobs", "queue_gpus")
        },
        "quantiles": {"wait_seconds": _quantiles(waits), "jct_seconds": _quantiles(completions)},
    }


def _rules(site: Site) -> dict[str, Any]:
    return {
        "policy": site.policy,
        "policy_options": dict(site.policy_options),
        "placer": site.placer,
        "backfill": str(site.backfill),
        "head_seconds": site.head_seconds,
        "preemption": {
            key: str(value) if key == "victims" else value for key, value in asdict(site.preemption).items()
        },
        "share_by": site.share_by,
        "half_life_seconds": site.half_life_seconds,
        "defrag": site.defrag,
        "site_queues": {name: asdict(queue) for name, queue in site.queues.items()},
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        key: asdict(value) if isinstance(value, Spread) else value
        for key in Summary.__dataclass_fields__
        for value in [getattr(summary, key)]
    }


def _quantiles(figures: Sequence[float]) -> list[float]:
    """The figure that k in 200 jobs do not exceed, for k from 0 to 200."""
    found: list[float] = np.quantile(figures, np.linspace(0, 1, QUANTILES + 1), method="inverted_cdf").tolist()
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
