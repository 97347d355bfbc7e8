"""`stoker rehearse`: a job's whole cluster on this machine, before anyone pays for GPUs."""

from __future__ import annotations

from typing import Any

import click

from stoker.cli import session
from stoker.cli.job_flags import UserArgsCommand, check_dry_run, dry_run_flags, job_flags


@click.command("rehearse", cls=UserArgsCommand)
@click.argument("job", required=False)
@job_flags
@click.option("--async", "do_not_wait", is_flag=True, help="Return at once instead of showing the logs.")
@click.option("--stream-logs", is_flag=True, hidden=True, help="As submit takes it; a rehearsal does so anyway.")
@dry_run_flags
@session.project_option
@session.gcloud_wide_flags
def command(
    job: str | None,
    do_not_wait: bool,
    stream_logs: bool,
    dry_run: bool,
    as_json: bool,
    project: str | None,
    **flags: Any,
) -> int:
    """Run a job's full cluster here, on virtual nodes made for it and gone after it.

    Takes the same arguments as `stoker jobs submit training`. Every replica is a process of its own with the wiring of the
    real thing; GPUs are simulated. JOB may be left out.
    """
    from stoker.cli import submission

    user_args = click.get_current_context().meta["user_args"]
    check_dry_run(dry_run, as_json)
    if dry_run:
        return submission.dry_run(flags, job, user_args, project=project, as_json=as_json, rehearse=True)
    _, status = submission.submit(flags, job, user_args, project=project, stream_logs=not do_not_wait, rehearse=True)
    return status
