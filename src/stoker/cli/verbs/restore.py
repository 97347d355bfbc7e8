"""`stoker restore`: bring a backup back."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli import session, show
from stoker.config import read_config

if TYPE_CHECKING:
    from stoker.store.backup import Manifest


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--to", type=click.Path(path_type=Path), metavar="HOME", help="Into this folder.  [default: the home]")
@click.option("--force", is_flag=True, help="Also where something is; it is moved into a folder beside it.")
@click.option("--check", is_flag=True, help="Only read it through, and say what is in it.")
@session.json_option
def command(file: Path, to: Path | None, force: bool, check: bool, as_json: bool) -> None:
    """Bring a backup back into a home whose server does not run. The file is checked first, to its last byte."""
    from stoker.store.restore import restore, verify

    environment = {**os.environ, **({"STOKER_HOME": str(to.absolute())} if to else {})}
    config = read_config(environment, Path.cwd())
    old: Path | None = None
    if check:
        manifest = verify(file)
    else:
        manifest, old = restore(file, config.home, config["database"], force=force)
    if as_json:
        show.data(
            {
                **manifest.counts,
                "made_at": manifest.made_at,
                "home": "" if check else str(config.home),
                "moved_to": str(old or ""),
            }
        )
        return
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.made_at))
    if check:
        show.done(f"a whole backup of {made}: {manifest.summary}")
        return
    show.done(f"restored the backup of {made} into {config.shown_database}: {manifest.summary}")
    if old is not None:
        show.note(f"  what was there is in {old}")
    if manifest.live:
        jobs = "1 job" if manifest.live == 1 else f"{manifest.live:,} jobs"
        show.warn(f"{jobs} had not ended then: what the server does not find running is queued again")
    if users := _users(manifest, config.home):
        whose = "1 user's token" if users == 1 else f"{users:,} users' tokens"
        show.warn(f"{whose} as of the backup {'is' if users == 1 else 'are'} good again: stoker tokens list")
    show.note(f"  Next:  {'STOKER_HOME=' + str(config.home) + ' ' if to else ''}stoker up")


def _users(manifest: Manifest, home: Path) -> int:
    """How many users' tokens have come with a backup."""
    if "home/tokens.json" not in manifest.members:
        return 0
    try:
        return len(json.loads((home / "tokens.json").read_text())["tokens"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0  # the server says what is wrong with it
