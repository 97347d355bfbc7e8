"""`stoker local`: without a server."""

from __future__ import annotations

from pathlib import Path

import click

from stoker.cli import session
from stoker.cli.job_flags import UserArgsCommand
from stoker.cli.main import Nouns


@click.group("local", cls=Nouns)
def command() -> None:
    """Train without a server, as gcloud's `local train`."""


@command.command("train", cls=UserArgsCommand)
@click.option("--module-name", required=True, help="The module to run, such as trainer.task.")
@click.option("--package-path", type=click.Path(path_type=Path), help="The folder of the trainer package.")
@click.option("--job-dir", default="", help="Handed to the program as --job-dir.")
@click.option("--distributed", is_flag=True, help="Run a small cluster of processes.")
@click.option("--worker-count", type=click.IntRange(min=0), default=2, show_default=True, help="With --distributed.")
@click.option(
    "--parameter-server-count", type=click.IntRange(min=0), default=2, show_default=True, help="With --distributed."
)
@click.option("--evaluator-count", type=click.IntRange(min=0), default=0, show_default=True, help="With --distributed.")
@click.option(
    "--start-port", type=click.IntRange(1, 65000), default=27182, show_default=True, help="With --distributed."
)
@session.gcloud_wide_flags
def train(
    module_name: str,
    package_path: Path | None,
    job_dir: str,
    distributed: bool,
    worker_count: int,
    parameter_server_count: int,
    evaluator_count: int,
    start_port: int,
) -> int:
    """Run your module on this machine; what follows `--` goes to it. Ends with its result."""
    from stoker.client.local_train import LocalCluster, local_train

    cluster = LocalCluster(
        workers=worker_count,
        parameter_servers=parameter_server_count,
        evaluators=evaluator_count,
        start_port=start_port,
    )
    args = click.get_current_context().meta["user_args"] or []
    return local_train(package_path, module_name, args, job_dir, cluster if distributed else None)
