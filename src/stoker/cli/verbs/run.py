"""`stoker run`: a plain command from the current folder, as a job, with no packaging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.job_flags import (
    UserArgsCommand,
    check_dry_run,
    dry_run_flags,
    option_flags,
    read_labels,
    variables_of,
)
from stoker.core.errors import NotReady
from stoker.core.options import OPTIONS

_REHEARSE = ("stoker rehearse with the same arguments", "stoker run --rehearse with the same command")


@click.command("run", cls=UserArgsCommand, context_settings={"allow_interspersed_args": False})
@click.option("--name", help="The job's name.  [default: from the command]")
@click.option(
    "--gpus", type=click.FloatRange(0, 64), default=0, help="GPUs for each replica; below one a share, such as 0.5."
)
@click.option("--gpu-type", help="Which GPUs, such as T4; T4,V100 takes whichever is free first.  [default: any]")
@click.option("--workers", type=click.IntRange(0, 10_000), default=0, help="Workers beside the chief.")
@click.option("--cpus", type=click.FloatRange(0.1, 1024), default=1.0, help="vCPUs for each replica.")
@click.option(
    "--memory",
    type=click.FloatRange(0, 65536),
    default=0.0,
    help="Memory for each replica, in GB; more it does not get.",
)
@click.option(
    "--python",
    default="",
    metavar="PATH|VERSION",
    help="Run on this interpreter, or in an empty environment of this version; `stoker`: on Stoker's own.",
)
@click.option(
    "--requirements",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Install what this file lists.  [default: the script's inline metadata, or a file of the folder]",
)
@click.option("--with", "packages", multiple=True, metavar="PACKAGE", help="Install this as well; repeatable.")
@click.option("--job-dir", default="", help="gs://BUCKET/…: in $STOKER_JOB_DIR and its kin, not in the arguments.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for the program; repeatable.")
@click.option("--labels", metavar="k=v,...", callback=read_labels, help="Labels of the job.")
@option_flags
@click.option("--rehearse", is_flag=True, help="On virtual nodes made for it.")
@click.option("--async", "do_not_wait", is_flag=True, help="Return at once instead of showing the output.")
@dry_run_flags
@click.argument("words", nargs=-1, metavar="-- COMMAND...")
@session.project_option
def command(
    name: str | None,
    do_not_wait: bool,
    dry_run: bool,
    as_json: bool,
    project: str | None,
    words: tuple[str, ...],
    **options: Any,
) -> int:
    """Run a command in a copy of this folder: stoker run [OPTIONS] -- python train.py --epochs 3.

    The folder is uploaded without its version control, virtual environments and caches, and only if it has changed.
    Ends with the job's own result.
    """
    from stoker.cli.follow import follow, where
    from stoker.cli.submission import show_plan, shown_progress
    from stoker.client.plain_command import environment_of, name_of
    from stoker.client.uploads import upload_folder

    asked = _body(_command(words), options)
    asked["name"] = name or name_of(asked["command"])
    check_dry_run(dry_run, as_json)
    client, project = session.client(), session.the_project(project)
    asked |= environment_of(
        client,
        asked["command"],
        Path.cwd(),
        shown_progress(),
        python=options["python"],
        requirements=options["requirements"],
        packages=options["packages"],
    )
    try:
        if dry_run:
            return show_plan(client.dry_run_command(project, asked), as_json=as_json)
        client.dry_run_command(project, asked, outlook=False)  # what is refused uploads nothing
        job = client.run(project, {**asked, "source": upload_folder(client, Path.cwd(), shown_progress())})
    except NotReady as error:
        raise NotReady(error.violations, fix=error.fix.replace(*_REHEARSE)) from None
    show.done(f"{job['name']} is queued")
    for line in (*map("  {}".format, job["notes"]), *where(job)):
        show.note(line)
    if do_not_wait:
        click.echo(job["name"])
        return 0
    return follow(client, project, job["name"])


def _command(words: tuple[str, ...]) -> list[str]:
    """The command after `--`. Words before it are most often a command whose `--` was forgotten."""
    context = click.get_current_context()
    found: list[str] = context.meta["user_args"] or []
    if words:
        raise click.UsageError(f"put `--` before the command: stoker run -- {' '.join([*words, *found])}", context)
    if not found:
        raise click.UsageError("what is to run? stoker run [OPTIONS] -- python train.py", context)
    return found


def _body(words: list[str], options: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": words,
        "env": variables_of(options["variables"]),
        "labels": options["labels"] or {},
        "gpus": options["gpus"],
        "gpu_type": ",".join(session.accelerator(part) for part in (options["gpu_type"] or "").split(",") if part),
        "workers": options["workers"],
        "vcpus": options["cpus"],
        "memory_gb": options["memory"],
        "job_dir": options["job_dir"],
        "rehearse": options["rehearse"],
        **{option.name: asked for option in OPTIONS if (asked := options[option.name]) is not None},
    }
