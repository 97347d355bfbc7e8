"""`stoker status`: what the server is and has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from stoker import __version__
from stoker.cli import session, show


@click.command("status")
@session.json_option
def command(as_json: bool) -> None:
    """What the server is and has. Starts none."""
    from stoker.client import embedded

    client = session.client(start=False)
    status = client.status()
    others = [found for found in embedded.standing_by(session.config()) if found.url != client.url]
    token_file = session.config().home / "token"
    if as_json:
        nodes = client.nodes()
        show.data({**status, "url": client.url, "token_file": str(token_file), "nodes": nodes})
        return
    show.table(
        ["WHAT", "VALUE"],
        [
            ["url", client.url],
            ["role", "leads" if status["leads"] else f"stands by: {status['leader'] or 'nobody'} leads"],
            ["version", status["version"]],
            ["home", status["home"]],
            ["token file", str(token_file)],
            ["engines", ", ".join(status["engines"])],
            *([["  problem", problem] for problem in status.get("problems", [])]),
            ["nodes", str(status["nodes"])],
            [
                "jobs",
                f"{status['jobs']['running']} running, {status['jobs']['live'] - status['jobs']['running']} waiting",
            ],
            ["files", status["buckets"]],
            *([["standing by", ", ".join(found.url for found in others)]] if others else []),
            *_isolation(status.get("isolation")),
            *([["site file", status["site"]]] if status["site"] else []),
            *([["hold", "jobs are accepted, none is started"]] if status["hold"] else []),
        ],
    )
    if status["version"] != __version__:
        show.warn(f"this is stoker {__version__}, the server is {status['version']}: stoker down, then stoker up")


def _isolation(told: Mapping[str, Any] | None) -> list[list[str]]:
    """How far programs are kept apart; nothing of a server that does not tell."""
    if not told:
        return []
    return [
        ["isolation", f"level {told['level']} ({told['asked']}): {told['by']}"],
        ["  leftovers", f"ended by {told['ended_by']}"],
        *([["  limits", f"{told['limits']} a replica"]] if told["limits"] else []),
        *([["  server first", told["server"]]] if told.get("server") else []),
        *([["  next level", told["next"]]] if told["next"] else []),
    ]
