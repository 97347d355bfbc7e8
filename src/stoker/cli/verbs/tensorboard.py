"""`stoker tensorboard`: TensorBoard on what a job has written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from stoker.cli import session, show
from stoker.core.errors import NotFound, Unavailable
from stoker.runtime.processes import die_with_parent

_FROM_STEPS = 1000


@click.command("tensorboard")
@session.job_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on. It asks for no token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6006, show_default=True, help="The port; 0 takes a free one."
)
@session.project_option
def command(job: str, host: str, port: int, project: str | None) -> int:
    """Start TensorBoard on JOB, in this terminal, until Ctrl-C.

    It shows every event file below the job's directory: those of the program, and in logs/steps those that Stoker writes of its
    steps. Of a job without a directory it shows the steps that the server knows.
    """
    client, project = session.client(), session.the_project(project)
    details = client.details(project, job)
    if find_spec("tensorboard") is None:
        raise Unavailable("TensorBoard is not installed", fix="pip install 'stoker[tensorboard]'")
    with event_folder(details, client.steps(project, job, points=_FROM_STEPS)) as folder:
        show.progress(f"TensorBoard on {folder}; it ends with Ctrl-C")
        words = ["--logdir", folder, "--host", host, "--port", str(port)]
        try:
            quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, "-m", "tensorboard.main", *words]
            return subprocess.run(command, env=quiet, preexec_fn=die_with_parent).returncode
        except KeyboardInterrupt:
            return 0


@contextmanager
def event_folder(details: Mapping[str, Any], training: Mapping[str, Any]) -> Iterator[str]:
    """Where the event files are: the job's directory, or one that is made of what the server knows."""
    place = details["job_dir_path"] or details["job_dir"]
    if place and ("://" in place or Path(place).is_dir()):
        yield place
        return
    if not training["replicas"]:
        where = f"nothing is written in {place} yet" if place else "it has no directory"
        raise NotFound(f"there is nothing to show of {details['name']}: no step was seen, and {where}")
    with tempfile.TemporaryDirectory(prefix="stoker-tensorboard-") as made:
        _write_events(Path(made), training)
        yield made


def _write_events(folder: Path, training: Mapping[str, Any]) -> None:
    """The steps that the server knows, as event files: each replica is a run."""
    from stoker.frameworks.metrics.event_files import EventFile

    for replica in training["replicas"]:
        file = EventFile(str(folder / replica["replica"]))
        for point in replica["series"]:
            shares = {"steps_per_second": point["steps_per_second"], "data_wait_share": point["data_wait_share"]}
            values = {f"stoker/{name}": value for name, value in shares.items() if value is not None}
            named = {name: float(value) for name, value in point["values"].items()}
            file.write(point["step"], point["at"], {**named, **values})
