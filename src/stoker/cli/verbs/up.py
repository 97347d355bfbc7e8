"""`stoker up`: start the embedded server."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import session, show
from stoker.config import Config, read_config

if TYPE_CHECKING:
    from stoker.client.embedded import Found


@click.command("up")
@click.option("--foreground", is_flag=True, help="Stay in this terminal; the log goes to stderr.")
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 takes a free one.  [default: 7077]"
)
@click.option("--engine", metavar="local|ray", help="Where replicas run; local,ray for both.  [default: local]")
@click.option("--address", metavar="HOST:PORT", help="Of the Ray cluster's head.")
@click.option("--fake", metavar="NODES", help="Declare virtual nodes, such as 10x4xT4,3xn1-highmem-8.")
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="The site file: queues, quotas, who goes first.  [default: site.toml in the home, if it is there]",
)
@click.option("--hold", is_flag=True, default=None, help="Accept jobs, but start none.")
@click.option("--standby", is_flag=True, help="A second server: it answers, and takes over when the first is gone.")
@click.option("--no-auth", is_flag=True, help="Ask for no token: for clients that can send none, on loopback only.")
@click.option(
    "--forget-unknown",
    is_flag=True,
    help="End programs that the database does not know, because it has lost its end, and put their files away.",
)
@session.json_option
def command(foreground: bool, standby: bool, no_auth: bool, forget_unknown: bool, as_json: bool, **flags: Any) -> None:
    """Start the embedded server of this home, in the background. Jobs that it finds running, it takes over."""
    from stoker.client import embedded
    from stoker.client.client import Client
    from stoker.site.site_file import read_site

    if flags["site"] is not None:
        flags["site"] = str(flags["site"].expanduser().absolute())  # the server runs in its home
    given = {name: value for name, value in flags.items() if value is not None} | ({"auth": False} if no_auth else {})
    config = read_config(os.environ, Path.cwd(), given)
    found = embedded.find(config)
    if foreground:
        from stoker.cli.server_log import ServerLog
        from stoker.server.run import serve

        if found is None and not config["auth"]:
            show.warn(session.NO_TOKEN)
        logging.basicConfig(handlers=[ServerLog(config.home / "server.log")], level=logging.WARNING)
        serve(config, standby=standby, forget_unknown=forget_unknown)
        return
    is_new = found is None or standby
    if found is None or standby:
        read_site(config)  # what is wrong with it is told here in full, not by the server's last words
        switches = ["--forget-unknown"] if forget_unknown else []
        found = embedded.start(config, [*switches, *_as_flags(given)], standby=standby)
    else:
        show.note(f"a server runs already at {found.url} (process {found.pid}); stoker down ends it")
        if given or forget_unknown:
            show.warn("what you gave now has no effect on it: stoker down, then stoker up again")
    if not found.needs_token:
        show.warn(session.NO_TOKEN)
    if found.waits:
        _tell_of_waiting(config, found, as_json)
        return
    status = Client(found.url, found.token).status()
    if as_json:
        show.data({"url": found.url, "token_file": str(config.home / "token"), "pid": found.pid, **status})
    elif is_new:
        _tell(config, found, status)


def _tell_of_waiting(config: Config, found: Found, as_json: bool) -> None:
    if as_json:
        show.data({"url": found.url, "pid": found.pid, "waits": found.waits})
        return
    show.done(f"server  {found.url}   (home {config.home})")
    show.warn(f"it waits, and begins by itself when it can: {found.waits}")


def _tell(config: Config, found: Found, status: Mapping[str, Any]) -> None:
    show.done(f"server  {found.url}   (home {config.home}; its file `token` lets you in)")
    show.done(
        f"nodes   {status['nodes']}   isolation level {status['isolation']['level']}   files   {status['buckets']}"
    )
    for problem in status["problems"]:
        show.warn(problem)
    if not status["leads"]:
        show.done(f"stands by for {status['leader'] or 'whoever comes'}")
    if status["site"]:
        show.done(f"site    {status['site']}")
    show.note("  Next:  stoker run -- python -c 'print(42)'   ·   stoker nodes   ·   stoker down")


_PASSED_ON = ("host", "port", "engine", "address", "fake", "site")


def _as_flags(given: Mapping[str, Any]) -> list[str]:
    """The same flags again, for the process in the background."""
    switches = [f"--{name}" for name in ("hold",) if given.get(name)] + (
        ["--no-auth"] if given.get("auth") is False else []
    )
    return [
        *switches,
        *(f"--{name}={value}" for name, value in given.items() if name in _PASSED_ON),
    ]
