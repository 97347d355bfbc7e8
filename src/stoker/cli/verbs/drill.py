"""`stoker drill`: a program is interrupted on purpose, to see whether it goes on where it was."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.follow import follow
from stoker.cli.job_flags import UserArgsCommand, job_flags
from stoker.cli.outlook import duration
from stoker.client.drill import WAYS, Drill, Outcome, Run, judged, ways_of
from stoker.core.errors import BadSpec, Violation
from stoker.core.job import RESUMABLE
from stoker.core.options import OPTIONS

_MOST_NAMES = 5
_OF_A_JOB = frozenset({"job_dir"})
_OF_TRAINING = ("config_file", "module_name", "package_path", "packages", "master_image_uri")
_OF_COMMAND = ("labels", *(option.name for option in OPTIONS))


@click.command("drill", cls=UserArgsCommand)
@click.argument("job", required=False)
@click.option(
    "--way", "ways", type=click.Choice(list(WAYS)), multiple=True, help="Only this; repeatable.  [default: all]"
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="By what part the values may differ in the end.",
)
@job_flags
@session.project_option
@session.json_option
@session.gcloud_wide_flags
def command(
    job: str | None, ways: tuple[str, ...], tolerance: float, project: str | None, as_json: bool, **flags: Any
) -> int:
    """Run the program of JOB again as a rehearsal, interrupt it on purpose, and see whether it goes on where it was.

    JOB may run, wait or have ended. With the flags of `stoker rehearse`, such as --config, the program is theirs; with a command
    alone, stoker drill --job-dir gs://BUCKET/FOLDER -- python train.py, it is that, in a copy of this folder. It runs once
    undisturbed, and once for each way: TERM to all, KILL to all, KILL to one replica. If it passes, JOB is marked as resumable,
    which the scheduler looks at when it has to stop somebody. Give it some tens of seconds of work.
    """
    client, project = session.client(), session.the_project(project)
    stamp = time.strftime("%m%d_%H%M%S")
    is_command = bool(click.get_current_context().meta["user_args"]) and not any(flags[name] for name in _OF_TRAINING)
    is_new = is_command or any(
        value is not None and value != () for name, value in flags.items() if name not in _OF_A_JOB
    )
    if is_new:
        first_run = _first_command if is_command else _first_run
        job = first_run(job, stamp, project, flags)
    elif job is None:
        raise click.UsageError(
            "which job? stoker drill JOB, or stoker drill --config config.yaml", click.get_current_context()
        )
    details = client.details(project, job)
    job_dir = flags.get("job_dir") or details["job_dir"]
    if not job_dir:
        problem = f"{job} has no job directory, so that it has no place for checkpoints"
        raise BadSpec([Violation("--job-dir", problem)], fix="give one: --job-dir gs://BUCKET/FOLDER")
    drill = Drill(client, project, job, f"{job_dir.rstrip('/')}/drill", show.progress)
    base = job if job == f"drill_{stamp}" else f"{job[:90]}_drill_{stamp}"
    if not is_new:
        show.progress(f"{base}: runs undisturbed")
    untouched = drill.run_of(job) if is_new else drill.untouched(base)
    if untouched.state != "SUCCEEDED":
        show.warn(f"it ended {untouched.state} by itself: stoker logs {untouched.job}")
        return 1
    outcomes = []
    for way in ways_of(details, ways):
        show.progress(f"{base}_{way}: {WAYS[way]}")
        outcomes.append(judged(way, untouched, drill.interrupted(f"{base}_{way}", way, untouched), tolerance))
    has_passed = bool(outcomes) and not any(outcome.problem for outcome in outcomes)
    if as_json:
        show.data(
            {"passed": has_passed, "untouched": asdict(untouched), "outcomes": [asdict(found) for found in outcomes]}
        )
    else:
        _show(untouched, outcomes)
    if has_passed and not is_new:
        client.relabel(project, job, {**details["labels"], RESUMABLE: "true"})
        show.done(f"{job} goes on where it was: it is marked as resumable")
    elif has_passed:
        show.done("it goes on where it was: submit it with --resumable")
    return 0 if has_passed else 1


def _first_command(job: str | None, stamp: str, project: str, flags: dict[str, Any]) -> str:
    """Run a plain command as a rehearsal, undisturbed; the others are runs of the same."""
    from stoker.cli.submission import shown_progress
    from stoker.client.submit import submit

    if not flags["job_dir"]:
        raise BadSpec(
            [Violation("--job-dir", "a drill needs a place for checkpoints")], fix="--job-dir gs://BUCKET/FOLDER"
        )
    words = click.get_current_context().meta["user_args"]
    name = job or f"drill_{stamp}"
    asked = {flag: flags[flag] for flag in _OF_COMMAND if flags[flag] is not None}
    if len(flags["requirements"]) > 1:
        raise BadSpec([Violation("--requirements", "one file is enough for a drill; it may name others by -r")])
    if flags["requirements"]:
        asked["requirements"] = flags["requirements"][0]
    found = submit(
        words,
        name=name,
        job_dir=f"{flags['job_dir'].rstrip('/')}/drill/{name}",
        project=project,
        rehearse=True,
        progress=shown_progress(),
        workers=flags["worker_count"] or 0,
        with_packages=flags["with_packages"],
        **asked,
    )
    status = follow(session.client(), project, found.name)
    if status:
        raise click.exceptions.Exit(status)
    return str(found.name)


def _first_run(job: str | None, stamp: str, project: str, flags: dict[str, Any]) -> str:
    """Run what the flags say as a rehearsal, undisturbed; the others are runs of the same."""
    from stoker.cli import submission

    user_args = click.get_current_context().meta["user_args"]
    found, status = submission.submit(
        flags, job or f"drill_{stamp}", user_args, project=project, stream_logs=True, rehearse=True
    )
    if status:
        raise click.exceptions.Exit(status)
    return str(found["jobId"])


def _show(untouched: Run, outcomes: list[Outcome]) -> None:
    took = f"{duration(untouched.seconds)}, {untouched.steps} steps"
    show.say(f"undisturbed: {took}" + "".join(f", {n} {value:.6g}" for n, value in untouched.values.items()))
    headers = ["WAY", "STOPPED_AT", "WENT_ON_AT", "LOST", "AGAIN_AFTER", "ENDED", "VALUES", "FILES"]
    show.table(headers, [_row(outcome) for outcome in outcomes])
    for outcome in outcomes:
        if outcome.other_files:
            names = ", ".join(outcome.other_files[:_MOST_NAMES]) + (", …" if outcome.other_files[_MOST_NAMES:] else "")
            show.note(f"  {outcome.way}: other than undisturbed (files with times in them always are): {names}")
        if outcome.problem:
            show.warn(f"{outcome.way}: {outcome.problem}")
            show.note(
                f"  → stoker logs {outcome.run.job}; docs/checkpoints.md tells how a program goes on where it was"
            )


def _row(outcome: Outcome) -> list[object]:
    lost = "" if outcome.lost_steps is None else f"{outcome.lost_steps} steps"
    again = "" if outcome.again_seconds is None else f"{outcome.again_seconds:.1f} s"
    values = {True: "equal", False: "others", None: "not told"}[outcome.is_equal]
    stopped = outcome.run.stopped_step if outcome.run.interrupted_at is not None else None
    files = ""
    if outcome.other_files is not None:
        files = f"{len(outcome.other_files)} other" if outcome.other_files else "equal"
    return [outcome.way, stopped, outcome.resumed_step, lost, again, outcome.run.state, values, files]
