"""`stoker probe`: the same program for a short while on several kinds of hardware, to see which is worth it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.job_flags import UserArgsCommand, job_flags, read_duration, variables_of
from stoker.cli.outlook import duration
from stoker.client.comparison import Compared, Comparison, Measured, advice, compared
from stoker.client.job_body import camel_keys, check_name
from stoker.client.probe import Candidate, Probe, body_of, candidates_of, command_of, table_of
from stoker.core.durations import duration_of
from stoker.core.errors import BadSpec, Violation
from stoker.core.job import PROBE
from stoker.core.options import OPTIONS

_OF_JOBS = ("config_file", "module_name", "package_path", "packages", "master_image_uri")
_OF_COMMANDS = tuple(option.name for option in OPTIONS)
_END_SECONDS = 60.0


@click.command("probe", cls=UserArgsCommand)
@click.option(
    "--try",
    "tries",
    required=True,
    metavar="HARDWARE,...",
    help="cpu, 2xT4, 3*1xT4 (three machines), 2xT4@n1-standard-16, a machine type.",
)
@click.option(
    "--seconds",
    default="20s",
    show_default=True,
    metavar="TIME",
    callback=read_duration,
    help="So much of the training is looked at.",
)
@click.option(
    "--limit",
    "limit_seconds",
    default="15m",
    show_default=True,
    metavar="TIME",
    callback=read_duration,
    help="Give up what has not trained so long by then, its turn in the queue included.",
)
@click.option("--name", help="What the names of its jobs begin with.  [default: from the time]")
@click.option(
    "--cpus", type=click.FloatRange(0.1, 1024), default=1.0, help="Of a plain command: vCPUs for each replica."
)
@click.option("--memory", type=click.FloatRange(0, 65536), default=0.0, help="Of a plain command: memory in GB.")
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Of a plain command: a variable; repeatable."
)
@click.option(
    "--python", default="", metavar="PATH|VERSION", help="Of a plain command: its interpreter, as in `stoker run`."
)
@job_flags
@session.project_option
@session.json_option
@session.gcloud_wide_flags
def command(
    tries: str,
    seconds: float,
    limit_seconds: float,
    name: str | None,
    cpus: float,
    memory: float,
    variables: tuple[str, ...],
    python: str,
    project: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train a program for a short while on each kind of hardware, and tell what more of it brings and costs.

    stoker probe --try "1xT4,2xT4,cpu" --config config.yaml, or with a plain command: stoker probe --try "cpu,2*cpu" -- python
    train.py. Each is a job, one after the other, and ended as soon as enough was seen. A script for one device is distributed
    (--distribute auto) where there are several. The first that trains is what the others are compared with.
    """
    for flag, value in (("--seconds", seconds), ("--limit", limit_seconds)):
        if value <= 0:
            raise click.UsageError(f"{flag}: more than 0 seconds", click.get_current_context())
    candidates = candidates_of(tries)
    base = name or f"probe_{time.strftime('%m%d_%H%M%S')}"
    for candidate in candidates:
        check_name(_job_name(base, candidate))
    project = session.the_project(project)
    most_seconds = limit_seconds + seconds + _END_SECONDS  # should nobody be there any more to end it
    shape = {"vcpus": cpus, "memory_gb": memory, "env": variables_of(variables)}
    submit = _submitter(base, project, flags, shape, python, most_seconds)
    probe = Probe(session.client(), project, submit, seconds=seconds, limit_seconds=limit_seconds, said=show.progress)
    rows: list[Measured] = []
    try:
        for candidate in candidates:
            show.progress(f"tries {candidate.text}")
            rows.append(probe.measured(candidate))
            if rows[-1].problem:
                show.warn(f"{candidate.text}: {rows[-1].problem}")
    finally:  # what was measured before somebody interrupts it is shown, too
        found = compared(rows)
        if as_json:
            told = [asdict(row) | {"busy_share": row.measured.busy_share} for row in found.rows]
            show.data({"name": base, "unit": found.unit, "candidates": told, "advice": list(advice(found))})
        elif rows:
            _show(found)
    return 0 if found.measured else 1


def _job_name(base: str, candidate: Candidate) -> str:
    return f"{base}_{candidate.name}"


def _submitter(
    base: str, project: str, flags: dict[str, Any], shape: dict[str, Any], python: str, most_seconds: float
) -> Callable[[Candidate], str]:
    """What submits a candidate's job. The program is uploaded once."""
    label = {PROBE: re.sub(r"[^a-z0-9_-]", "_", base.lower())[:63]}
    user_args = click.get_current_context().meta["user_args"]
    client = session.client()
    if any(flags[name] for name in _OF_JOBS):
        if python:
            raise click.UsageError(
                "--python is of a plain command; a job has --python-version", click.get_current_context()
            )
        body = _uploaded(base, flags, user_args)

        def submit_job(candidate: Candidate) -> str:
            job = body_of(body, candidate)
            asked = job["trainingInput"]
            job |= {
                "jobId": _job_name(base, candidate),
                "labels": {**_several(candidate, "stoker-distribute"), **table_of(job, "labels"), **label},
            }
            scheduling = camel_keys(table_of(asked, "scheduling"))
            asked["scheduling"] = {**scheduling, "maxRunningTime": duration_of(most_seconds)}
            if isinstance(asked.get("jobDir"), str):
                asked["jobDir"] = _folder(asked["jobDir"], job["jobId"])
            return str(client.submit(project, job)["jobId"])

        return submit_job
    asked = {**_plain(flags, user_args, python), **shape}

    def submit_command(candidate: Candidate) -> str:
        name = _job_name(base, candidate)
        job = command_of({**_several(candidate, "distribute"), **asked, "name": name}, candidate)
        job |= {"labels": {**(flags["labels"] or {}), **label}, "max_running_seconds": most_seconds}
        if flags["job_dir"]:
            job["job_dir"] = _folder(flags["job_dir"], name)
        return str(client.run(project, job)["name"])

    return submit_command


def _several(candidate: Candidate, field: str) -> dict[str, str]:
    return {field: "auto"} if candidate.devices > 1 else {}


def _folder(job_dir: str, name: str) -> str:
    """One of its own, or a candidate would go on where another was."""
    return f"{job_dir.rstrip('/')}/probe/{name}"


def _uploaded(base: str, flags: dict[str, Any], user_args: list[str] | None) -> dict[str, Any]:
    from stoker.cli import submission
    from stoker.client.uploads import upload_packages

    body, _ = submission.read_submission(flags, base, user_args)
    if not isinstance(body.get("trainingInput"), dict):
        raise BadSpec([Violation("--config", "has no trainingInput, so there is no program")])
    upload_packages(
        session.client(),
        body,
        packages=[part for part in (flags["packages"] or "").split(",") if part],
        package_path=flags["package_path"],
        requirements=flags["requirements"],
        with_packages=flags["with_packages"],
        staging_bucket=flags["staging_bucket"] or "",
        progress=submission.shown_progress(),
    )
    return body


def _plain(flags: dict[str, Any], words: list[str] | None, python: str) -> dict[str, Any]:
    from stoker.cli.submission import shown_progress
    from stoker.client.plain_command import environment_of
    from stoker.client.uploads import upload_folder

    applies = (*_OF_COMMANDS, "labels", "job_dir", "requirements", "with_packages")
    ignored = sorted(name for name, value in flags.items() if value not in (None, ()) and name not in applies)
    if ignored:
        flag = f"--{ignored[0].replace('_', '-')}"
        raise click.UsageError(
            f"{flag} is of jobs with --config or --module-name; a plain command has --cpus and --memory",
            click.get_current_context(),
        )
    if not words:
        raise click.UsageError(
            "which program? stoker probe --try HARDWARE --config config.yaml, or stoker probe --try HARDWARE -- python train.py",
            click.get_current_context(),
        )
    client, folder, progress = session.client(), Path.cwd(), shown_progress()
    environment = environment_of(
        client,
        words,
        folder,
        progress,
        python=python,
        requirements=flags["requirements"],
        packages=flags["with_packages"],
    )
    asked = {"command": words, "source": upload_folder(client, folder, progress), **environment}
    return asked | {name: flags[name] for name in _OF_COMMANDS if flags[name] is not None}


def _show(found: Comparison) -> None:
    headers = [
        "HARDWARE",
        "MACHINES",
        "STEPS/S",
        "EXAMPLES/S",
        "BUSY",
        "DATA_WAIT",
        "TOGETHER",
        "EPOCH",
        "SPEED-UP",
        "EFFICIENCY",
        "USD/H",
        f"USD/{found.unit.upper().replace(' ', '_')}",
    ]
    if found.measured:
        show.table(headers, [_row(row) for row in found.rows if row.speed_up is not None])
    for line in advice(found):
        show.say(line)


def _row(row: Compared) -> list[object]:
    one = row.measured
    return [
        one.candidate,
        one.machines,
        _number(one.steps_per_second),
        _number(one.examples_per_second),
        _share(one.busy_share),
        _share(one.data_wait_share),
        _share(one.together_share),
        _time(one.epoch_seconds),
        "" if row.speed_up is None else f"{row.speed_up:.2f}x",
        _share(row.efficiency),
        _number(one.usd_per_hour),
        _number(row.usd),
    ]


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g} s" if seconds < 60 else duration(seconds)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _share(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f} %"
