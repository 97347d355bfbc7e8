"""`stoker run`: a plain command from the current folder, as a job, with no packaging."""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.job_flags import UserArgsCommand, read_labels
from stoker.core.errors import BadSpec, Violation

SOURCE_BUCKET = "gs://stoker-source"


@click.command("run", cls=UserArgsCommand)
@click.option("--name", help="The job's name.  [default: from the command]")
@click.option("--gpus", type=click.IntRange(0, 64), default=0, help="GPUs for each replica.")
@click.option("--gpu-type", help="Which GPUs, such as T4.  [default: any]")
@click.option("--workers", type=click.IntRange(0, 10_000), default=0, help="Workers beside the chief.")
@click.option("--cpus", type=click.FloatRange(0.1, 1024), default=1.0, help="vCPUs for each replica.")
@click.option("--memory", type=click.FloatRange(0, 65536), default=0.0, help="Memory for each replica, in GB.")
@click.option("--job-dir", default="", help="gs://BUCKET/…: in $STOKER_JOB_DIR and its kin, not in the arguments.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for the program; repeatable.")
@click.option("--labels", metavar="k=v,...", callback=read_labels, help="Labels of the job.")
@click.option("--priority", type=click.IntRange(0, 1000), default=0, help="0 to 1000, greater first.")
@click.option("--rehearse", is_flag=True, help="On virtual nodes made for it.")
@click.option("--async", "do_not_wait", is_flag=True, help="Return at once instead of showing the output.")
@session.project_option
def command(name: str | None, do_not_wait: bool, project: str | None, **options: Any) -> int:
    """Run a command in a copy of this folder: stoker run [OPTIONS] -- python train.py --epochs 3.

    The folder is uploaded without its version control, virtual environments and caches, and only if it has changed.
    Ends with the job's own result.
    """
    from stoker.cli.follow import follow

    context = click.get_current_context()
    words: list[str] = context.meta["user_args"] or []
    if not words:
        raise click.UsageError("what is to run? stoker run [OPTIONS] -- python train.py", context)
    client, project = session.client(), session.the_project(project)
    body = {
        "name": name or _name(words),
        "command": words,
        "source": _upload_folder(Path.cwd(), client),
        "env": _variables(options["variables"]),
        "labels": options["labels"] or {},
        "gpus": options["gpus"],
        "gpu_type": options["gpu_type"] or "",
        "workers": options["workers"],
        "vcpus": options["cpus"],
        "memory_gb": options["memory"],
        "job_dir": options["job_dir"],
        "priority": options["priority"],
        "rehearse": options["rehearse"],
    }
    job = client.run(project, body)
    show.done(f"{job['name']} is queued")
    if do_not_wait:
        click.echo(job["name"])
        return 0
    status = follow(client, project, job["name"])
    if status != 130:
        show.note(f"  Next:  stoker logs {job['name']}   ·   stoker jobs describe {job['name']}")
    return status


def _upload_folder(folder: Path, client: Any) -> str:
    from stoker.cli.submission import upload
    from stoker.client.packaging import pack_folder, shown_size

    with tempfile.TemporaryDirectory(prefix="stoker-") as temporary:
        packed = pack_folder(folder, Path(temporary))
        skipped = f" (without {', '.join(packed.skipped[:4])})" if packed.skipped else ""
        show.progress(f"{packed.files} files, {shown_size(packed.size_bytes)} packed{skipped}")
        for name, size in packed.largest:
            if size > 10 << 20:
                show.warn(f"{name} has {shown_size(size)}; data is better read from its own place")
        return str(upload(client, packed.path, f"{SOURCE_BUCKET}/{packed.sha256}/source.zip"))


def _name(words: list[str]) -> str:
    """A short name from the command: `python train.py` → train_3f2a."""
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    stem = re.sub(r"[^A-Za-z0-9_]", "_", Path(script).stem).strip("_")[:40] or "job"
    return f"{stem if stem[0].isalpha() else 'job_' + stem}_{secrets.token_hex(2)}"


def _variables(pairs: tuple[str, ...]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair or not pair.partition("=")[0]]
    if wrong:
        raise BadSpec([Violation("--env", f"{wrong[0]!r} is not NAME=VALUE")])
    return dict(pair.partition("=")[::2] for pair in pairs)
