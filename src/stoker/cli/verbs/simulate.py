"""`stoker simulate`: a trace of jobs under this scheduler, in virtual time; no server needed."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import files, session, show

if TYPE_CHECKING:
    from stoker.core.site import Site
    from stoker.simulate.run import Model


class Finite(click.FloatRange):
    """A number that is one: neither nan nor inf."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuse what is none."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


NOT_NEGATIVE = Finite(min=0)
A_FILE = click.Path(path_type=Path)


@click.command("simulate")
@click.argument("trace", type=A_FILE)
@click.option(
    "--nodes", default="", metavar="NxGxTYPE,…", help="The cluster, such as 80x8xV100.  [default: the trace's own]"
)
@click.option("--policy", help="The order of the queue.  [default: the site's]")
@click.option("--compare", metavar="POLICY,…", help="Several policies side by side, such as fifo,srsf,las.")
@click.option("--placer", default="", help="How gangs are placed.  [default: the site's]")
@click.option("--backfill", default="", help="strict, easy or skip.  [default: the site's]")
@click.option("--site", type=A_FILE, help="A site file: queues, quotas, preemption.  [default: one queue]")
@click.option("--from", "start", default="", metavar="WHEN", help="Jobs from here on: a date, or seconds.")
@click.option("--to", "end", default="", metavar="WHEN", help="Jobs up to here; a date with its whole day.")
@click.option("--format", "form", default="", help="The trace's format.  [default: told by how the file begins]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of everything that is drawn.")
@click.option("--known-run-times", is_flag=True, help="Let an oracle tell the scheduler run times, to compare with.")
@click.option("--node-failures", metavar="TIME", help="Mean time between failures of one node, such as 30d.")
@click.option("--repair", default="1h", show_default=True, metavar="TIME", help="How long a node that failed is gone.")
@click.option("--restart-seconds", type=NOT_NEGATIVE, default=30.0, show_default=True, help="What each restart costs.")
@click.option(
    "--lost-seconds", type=NOT_NEGATIVE, default=0.0, show_default=True, help="Work lost at each interruption."
)
@click.option("--resumable", type=Finite(0, 1), default=1.0, show_default=True, help="Share of jobs that resume.")
@click.option("--report", "report_path", type=A_FILE, help="Write a page with figures and plots (HTML).")
@click.option("--result", "result_path", type=A_FILE, help="Write everything that was found (JSON).")
@session.json_option
def command(trace: Path, report_path: Path | None, result_path: Path | None, as_json: bool, **asked: Any) -> None:
    """Replay a TRACE of jobs through the scheduler, in virtual time, and compare policies.

    TRACE is a file or a folder of a known format: acme, chronus, gavel, helios, muri, openb, pai, philly, slurm and others.
    """
    files.check_writable(report_path, "--report")
    files.check_writable(result_path, "--result")
    found = _found(trace, **asked)
    if result_path is not None:
        from stoker.simulate.results import text_of

        files.write(result_path, text_of(found))
        show.done(f"wrote {result_path}")
    if report_path is not None:
        from stoker.simulate.report import report

        files.write(report_path, report(found))
        show.done(f"wrote {report_path}")
    if as_json:
        show.data(found)
    else:
        _show(found)


def _found(path: Path, *, nodes: str, policy: str | None, compare: str | None, site: Path | None, **asked: Any) -> Any:
    """The result. Raises for what is wrong with the request, before anything runs."""
    from stoker.core.site import Site
    from stoker.simulate import request
    from stoker.simulate.results import result
    from stoker.simulate.study import study
    from stoker.site.site_file import read_file

    policies = [*([policy] if policy else []), *(name.strip() for name in (compare or "").split(",") if name.strip())]
    base = Site() if site is None else read_file(site)
    sites = request.sites(base, policies, asked["placer"], asked["backfill"])
    model = _model(asked)
    source = request.source(path, asked["form"], asked["start"], asked["end"])
    cluster = request.cluster(nodes, source.trace)
    started = time.monotonic()
    outcomes = study(source.trace, cluster, sites, model, progress=_progress(len(source.trace.jobs), sites))
    names = ", ".join(site.policy for site in sites)
    show.done(f"{len(source.trace.jobs):,} jobs under {names} in {time.monotonic() - started:.1f}s")
    return result(source.trace, source.sha256, source.window, cluster, model, outcomes)


def _model(asked: dict[str, Any]) -> Model:
    from stoker.simulate.engine import Costs
    from stoker.simulate.failures import Failures
    from stoker.simulate.request import span
    from stoker.simulate.run import Model

    mean, repair = asked["node_failures"], span(asked["repair"], "--repair")
    return Model(
        costs=Costs(restart_seconds=asked["restart_seconds"], lost_seconds=asked["lost_seconds"]),
        resumable_share=asked["resumable"],
        failures=Failures(mean_seconds=span(mean, "--node-failures"), repair_seconds=repair) if mean else None,
        knows_run_times=asked["known_run_times"],
        seed=asked["seed"],
    )


def _progress(jobs: int, sites: list[Site]) -> Callable[[Site, int], None]:
    """Shows how many jobs have been submitted, on a terminal."""
    if not sys.stderr.isatty():
        return lambda site, submitted: None
    done = [0]

    def tell(site: Site, submitted: int) -> None:
        whole = sites.index(site) * jobs + submitted
        bar.label = f"{site.policy:<10}"
        bar.update(whole - done[0])
        done[0] = whole
        if whole == jobs * len(sites):
            bar.render_finish()

    bar: Any = click.progressbar(
        length=jobs * len(sites), file=sys.stderr, show_pos=True, update_min_steps=max(1, jobs // 500)
    )
    bar.render_progress()
    return tell


def _show(found: Any) -> None:
    from stoker.simulate.figures import labels, rows

    show.table(["FIGURE", *labels(found), "BOUND"], rows(found))
    for name, policy in zip(labels(found), found["policies"], strict=True):
        lost = {what: policy["jobs"][what] for what in ("refused", "unfinished") if policy["jobs"][what]}
        if lost:
            said = ", ".join(f"{count:,} {what}" for what, count in lost.items())
            show.warn(f"{name}: {said}; such jobs are in no other figure, so the others flatter")
    left_out = sum(found["trace"]["dropped_rows"].values())
    if left_out:
        show.note(f"{left_out:,} rows of the trace were left out: --result or --report says why")
    for text in found["trace"]["notes"]:
        show.note(f"trace: {text}")
    show.note("in brackets: how many times the bound, which no scheduler can beat")
