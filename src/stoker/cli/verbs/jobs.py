"""`stoker jobs`: submit and look after jobs, with the words and flags of `gcloud ai-platform jobs`."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.follow import follow, held, replica_named, where
from stoker.cli.formats import format_option, formatted
from stoker.cli.job_flags import UserArgsCommand, check_dry_run, dry_run_flags, job_flags, read_labels
from stoker.cli.job_list import as_data, filter_flags, filter_of, in_order, show_jobs
from stoker.cli.main import Nouns
from stoker.cli.outlook import diagnosed


@click.group("jobs", cls=Nouns)
def command() -> None:
    """Submit and look after jobs: what you know from `gcloud ai-platform jobs`."""


@command.group("submit", cls=Nouns)
def submit() -> None:
    """Submit a job."""


@submit.command("training", cls=UserArgsCommand)
@click.argument("job", required=False)
@job_flags
@click.option("--async", "do_not_wait", is_flag=True, help="Return at once (the default).")
@click.option("--stream-logs", is_flag=True, help="Show the logs until the job has ended; end with its result.")
@dry_run_flags
@session.project_option
@format_option
@session.gcloud_wide_flags
def training(
    job: str | None,
    do_not_wait: bool,
    stream_logs: bool,
    dry_run: bool,
    as_json: bool,
    project: str | None,
    shape: str | None,
    **flags: Any,
) -> int:
    """Submit a training job.

    Flags end at `--`; what follows goes to your program. A flag beats the same field of --config.
    """
    from stoker.cli import submission

    context = click.get_current_context()
    check_dry_run(dry_run, as_json)
    if do_not_wait and stream_logs:
        raise click.UsageError("--async and --stream-logs exclude each other", context)
    if dry_run:
        return submission.dry_run(flags, job, context.meta["user_args"], project=project, as_json=as_json)
    shown, status = submission.submit(flags, job, context.meta["user_args"], project=project, stream_logs=stream_logs)
    if shape:
        click.echo(formatted(shown, shape))
    elif not stream_logs:
        click.echo(formatted({"jobId": shown["jobId"], "state": shown["state"]}, "yaml"))
    return status


@command.command("describe")
@session.job_argument
@click.option("--summarize", is_flag=True, hidden=True, expose_value=False)
@session.project_option
@format_option
@session.json_option
@session.gcloud_wide_flags
def describe(job: str, project: str | None, shape: str | None, as_json: bool) -> None:
    """Show a job: as AI Platform shows it; --json and --format with Stoker's own words, attempts and replicas beside it."""
    client, project = session.client(), session.the_project(project)
    if as_json or shape:
        click.echo(formatted({**client.job(project, job), **client.details(project, job)}, shape or "json"))
        return
    click.echo(formatted(client.job(project, job), "yaml"))
    _explain(client.details(project, job))


def _explain(details: dict[str, Any]) -> None:
    """What else there is to know, beside the data."""
    switches = [name for name in ("preemptible", "resumable") if details[name]]
    show.progress(", ".join([f"queue {details['queue']}", f"priority {details['priority']}", *switches]))
    for text in details["notes"]:
        show.progress(text)
    if details.get("reason"):
        show.progress(f"waits: {details['reason']['text']}. {details['reason']['action']}")
    for line in held(details):
        show.note(line)
    for attempt in details["attempts"]:
        nodes = sorted({r["node"] for r in attempt["replicas"]})
        more = f" and {len(nodes) - 4} more" if nodes[4:] else ""
        words = [f"attempt {attempt['number']}:", attempt["state"], attempt["cause"], "on", ", ".join(nodes[:4]) + more]
        show.progress(" ".join(filter(None, words)))
        for line in diagnosed(attempt["diagnosis"]):
            show.note(f"    {line}")
    spent = [f"{what} {show.duration(s)}" for what, s in details["spent_seconds"].items() if s >= 0.05]
    if spent:
        show.progress("time on its machines: " + ", ".join(spent))
    for line in where(details):
        show.note(line)
    show.note(f"  Next:  stoker logs {details['name']}   ·   stoker why {details['name']}")


@command.command("list")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="At most so many, newest first; 0: all."
)
@click.option("--page-size", type=click.IntRange(1, 1000), default=100, help="Ask the server for so many at a time.")
@filter_flags
@session.project_option
@format_option
@session.json_option
@session.gcloud_wide_flags
def list_jobs(
    limit: int, page_size: int, sort_by: str | None, project: str | None, shape: str | None, as_json: bool, **asked: Any
) -> None:
    """List the jobs of a project, newest first."""
    wanted = filter_of(asked.pop("filter_text"), **asked, now=time.time())
    most = limit or None
    few = page_size if most is None or sort_by else min(page_size, most + 1)
    pages = session.client().all_jobs(session.the_project(project), page=few, filter=wanted)
    jobs = in_order(list(pages), sort_by) if sort_by else list(islice(pages, most and most + 1))
    shown = jobs[:most]
    if shape or as_json:
        click.echo(formatted(list(map(as_data, shown)), shape or "json"))
        return
    if not jobs:
        none = "no job passes" if wanted else "no jobs yet; submit one: stoker run -- python train.py"
        show.note(none)
        return
    show_jobs(shown)
    if len(jobs) > len(shown):
        show.note(f"  there are more: --limit {max(100, 5 * limit)}, or 0 for all")


@command.command("cancel")
@session.job_argument
@session.project_option
@session.gcloud_wide_flags
def cancel(job: str, project: str | None) -> None:
    """Stop a job. Of no effect on one that has ended."""
    client, project = session.client(), session.the_project(project)
    client.cancel(project, job)
    state = client.details(project, job)["state"]
    if state in ("SUCCEEDED", "FAILED"):
        show.note(f"{job} had {state.lower()} already")
    else:
        show.done(f"{job} is cancelled" if state == "CANCELLED" else f"{job} is being cancelled")


@command.command("release")
@session.job_argument
@session.project_option
def release(job: str, project: str | None) -> None:
    """Give back the places that are kept after a failure (--hold-on-failure). The job then ends as it failed."""
    session.client().release(session.the_project(project), job)
    show.done(f"the places of {job} are given back")


@command.command("shell", cls=UserArgsCommand)
@session.job_argument
@click.option("--replica", help="Whose place, such as worker-0.  [default: that of the first that is kept]")
@session.project_option
def shell(job: str, replica: str | None, project: str | None) -> int:
    """Open a shell where a program has failed, if its place is kept (--hold-on-failure), and on this machine.

    It has the program's working directory, environment and GPUs. The command after `--` is run instead of a shell. It is ended
    when the place is given back.
    """
    from stoker.cli.shell import open_shell

    details = session.client().details(session.the_project(project), job)
    command = click.get_current_context().meta["user_args"]
    return open_shell(details, session.config().home, replica_named(details, replica) if replica else "", command)


@command.command("stream-logs")
@session.job_argument
@click.option("--task-name", help="Only this replica, such as worker-0 or worker-replica-0.")
@click.option("--polling-interval", hidden=True, expose_value=False)
@click.option("--allow-multiline-logs", is_flag=True, hidden=True, expose_value=False)
@session.project_option
@session.gcloud_wide_flags
def stream_logs(job: str, task_name: str | None, project: str | None) -> int:
    """Show a job's logs until it has ended; end with its result."""
    client, project = session.client(), session.the_project(project)
    replica = replica_named(client.details(project, job), task_name) if task_name else ""
    return follow(client, project, job, replica=replica)


@command.command("update")
@session.job_argument
@click.option("--update-labels", metavar="k=v,...", callback=read_labels, help="Labels to add or change.")
@click.option("--remove-labels", help="Keys to drop, comma-separated.")
@click.option("--clear-labels", is_flag=True, help="Drop all first.")
@session.project_option
@session.gcloud_wide_flags
def update(
    job: str, update_labels: dict[str, str] | None, remove_labels: str | None, clear_labels: bool, project: str | None
) -> None:
    """Change a job's labels."""
    if not (update_labels or remove_labels or clear_labels):
        raise click.UsageError(
            "give at least one of --update-labels, --remove-labels, --clear-labels", click.get_current_context()
        )
    client, project = session.client(), session.the_project(project)
    labels = {} if clear_labels else dict(client.job(project, job).get("labels", {}))
    for key in (remove_labels or "").split(","):
        labels.pop(key.strip(), None)
    updated = client.relabel(project, job, {**labels, **(update_labels or {})})
    show.done(f"labels of {job}: " + (", ".join(f"{k}={v}" for k, v in updated.get("labels", {}).items()) or "none"))
