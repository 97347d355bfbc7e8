"""`stoker policy`: what other rules would have done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from stoker.cli import files, session, show
from stoker.cli.main import Nouns

A_FILE = click.Path(path_type=Path)


@click.group("policy", cls=Nouns)
def command() -> None:
    """Try other rules of scheduling on what this site has done."""


@command.command("replay")
@click.argument("site_file", type=A_FILE, required=False)
@click.option("--last", default="30d", show_default=True, metavar="TIME", help="How far back: 12h, 30d, 8w.")
@click.option("--add", default="", metavar="NxGxTYPE,…", help="With more machines, such as 4x4xT4.")
@click.option("--remove", default="", metavar="NODE,…", help="Without these nodes; 2x4xT4 takes two of that shape.")
@click.option("--report", "report_path", type=A_FILE, help="Write a page with all of it (HTML).")
@session.json_option
def replay(site_file: Path | None, last: str, add: str, remove: str, report_path: Path | None, as_json: bool) -> None:
    """Replay this site's own jobs under the rules of SITE_FILE, and under its present ones: who would wait less, who more.

    Nothing is changed, and the server only tells what it knows. Without SITE_FILE the rules stay, for other machines.
    """
    from stoker.simulate import time_machine_report

    files.check_writable(report_path, "--report")
    found, page = _found(site_file, last, add, remove)
    if report_path is not None:
        files.write(report_path, page())
        show.done(f"wrote {report_path}")
    if as_json:
        show.data(found)
        return
    for what in ("queue", "user"):
        rows = [[share["name"], *time_machine_report.share_cells(share)] for share in found[f"{what}s"]]
        show.table([text.upper().replace(" ", "_") for text in (what, *time_machine_report.HEADERS)], rows)
        show.say("")
    _show_shifts(found)
    _show_doubts(found)


def _found(site_file: Path | None, last: str, add: str, remove: str) -> tuple[dict[str, Any], Any]:
    """What was found, and how to make a page of it."""
    from stoker.core.errors import BadSpec, Violation
    from stoker.simulate import past, time_machine_report
    from stoker.simulate.cluster import nodes_of_text
    from stoker.simulate.request import span
    from stoker.simulate.time_machine import replay_twice
    from stoker.site.site_file import read_file

    if site_file is None and not add and not remove:
        raise BadSpec([Violation("SITE_FILE", "nothing would change")], fix="give a site file, --add or --remove")
    new = None if site_file is None else read_file(site_file, session.config()["region"])
    seconds = span(last, "--last")
    added = nodes_of_text(add, "--add") if add else []
    told = session.client().history(max(0.0, time.time() - seconds))
    before = past.past(told)
    nodes = past.changed(before.nodes, added, remove)
    show.progress(f"replaying {len(before.jobs):,} jobs twice")
    found = replay_twice(before, new or before.site, nodes)
    answer = time_machine_report.answer(before, new or before.site, nodes, found)
    return answer, lambda: time_machine_report.report(answer, found.before, found.after)


def _show_shifts(found: dict[str, Any]) -> None:
    from stoker.simulate.figures import seconds

    for title, shifts in (("gain", found["gain"]), ("lose", found["lose"])):
        rows = [
            [shift["name"], shift["owner"], shift["queue"], seconds(shift["wait_before"]), seconds(shift["wait_after"])]
            for shift in shifts
        ]
        if rows:
            show.table([f"{title.upper()}_MOST", "USER", "QUEUE", "WAIT_BEFORE", "WAIT_AFTER"], rows)
            show.say("")
    if not found["gain"] and not found["lose"]:
        show.say("Nobody gains and nobody loses: every job ends when it did.")


def _show_doubts(found: dict[str, Any]) -> None:
    from stoker.simulate.time_machine_report import calibration_said

    show.note(calibration_said(found["calibration"]))
    for why, count in found["left_out"].items():
        show.warn(f"{count:,} jobs are left out: they {why}")
    if found["no_longer_fit"]:
        show.warn(f"without a machine that fits: {', '.join(found['no_longer_fit'][:5])}")
    for queue, count in found["queues_not_in_the_new_rules"].items():
        show.warn(f"the new rules have no queue {queue}: its {count:,} jobs count as the default queue's")
    if not found["is_whole"]:
        show.warn("there were more jobs in that time; these are the newest")
    show.note("\n  - ".join(["assumed:", *found["assumptions"]]))
