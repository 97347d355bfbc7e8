"""`stoker top`: machines, GPUs and running jobs, live."""

from __future__ import annotations

import os

import click

from stoker.cli import session, show


@click.command("top")
@click.option("--once", is_flag=True, help="Print it once, and end. So it does where there is no terminal.")
@session.json_option
def command(once: bool, as_json: bool) -> None:
    """Watch machines, their GPUs, who holds them, and how running jobs train: live, on the full screen.

    `?` shows the keys, `q` ends it. Admins see what machines do beside their GPUs; others see GPUs and their own jobs.
    """
    from stoker.cli.top.once import is_screen, print_once
    from stoker.cli.top.source import Source

    source = Source(session.impatient_client)
    overview = source.first()
    if as_json:
        show.data(overview)
    elif once or not is_screen():
        print_once(overview, source.url)
    else:
        from stoker.cli.top.app import Top

        for name in ("COLUMNS", "LINES"):  # where a shell has exported them, they would hold on to the size that was
            os.environ.pop(name, None)
        top = Top(overview, source.look, lambda: source.url)
        top.run(mouse=False)
        if top.failure is not None:
            raise top.failure
