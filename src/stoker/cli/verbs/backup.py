"""`stoker backup`: one file with all that a home cannot do without."""

from __future__ import annotations

import time
from pathlib import Path

import click

from stoker.cli import session, show


@click.command("backup")
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE|FOLDER")
@click.option("--no-logs", is_flag=True, help="Without the output of jobs.")
@click.option("--files", is_flag=True, help="With the buckets that are folders of the home, and uploads under way.")
@session.json_option
def command(target: Path, no_logs: bool, files: bool, as_json: bool) -> None:
    """Back up this home into one file, while its server runs. In a FOLDER the file gets a name of its own.

    Who has the file can do what you can: the server's token is in it.
    """
    from stoker.store.backup import back_up

    config = session.config()
    now = time.time()
    if target.is_dir():
        target = target / time.strftime("stoker-%Y%m%d-%H%M%S.tar.gz", time.localtime(now))
    manifest = back_up(config.home, config["database"], target.absolute(), now, logs=not no_logs, files=files)
    if as_json:
        show.data({**manifest.counts, "made_at": manifest.made_at, "file": str(target), "bytes": target.stat().st_size})
        return
    show.done(f"backup  {target}   ({target.stat().st_size / 1e6:.1f} MB, {manifest.summary})")
    show.note("  Next:  stoker restore FILE --to HOME   brings it back")
