"""`stoker tokens`: who may use the server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.main import Nouns


@click.group("tokens", cls=Nouns)
def command() -> None:
    """Give other users tokens of their own, and take them back."""


@command.command("create")
@click.argument("name")
@click.option(
    "--days", type=click.FloatRange(0, 3650, min_open=True), help="Good for so many days.  [default: until revoked]"
)
@click.option("--project", "projects", multiple=True, help="Opens this project alone; may be repeated.  [default: all]")
@click.option("--bucket", "buckets", multiple=True, help="With --project: opens this bucket, too; may be repeated.")
@click.option("--admin", is_flag=True, help="Opens everything, as the home's own token does.")
@click.option("--metrics", is_flag=True, help="Opens /metrics alone: for a Prometheus.")
@session.json_option
def create(name: str, as_json: bool, **asked: Any) -> None:
    """Make a token for the user NAME, and print it: this once, for the server keeps only its hash.

    Jobs that are submitted with it belong to NAME. They use it by STOKER_URL and STOKER_TOKEN.
    """
    body = {"name": name, **{key: list(value) if isinstance(value, tuple) else value for key, value in asked.items()}}
    made = session.client().create_token(body)
    if as_json:
        show.data(made)
        return
    click.echo(made["token"])
    show.done(f"{name} may use {_what(made)}, {_until(made)}; it is not shown again")


@command.command("list")
@session.json_option
def list_(as_json: bool) -> None:
    """List the tokens of users, and when each was last used."""
    found = session.client().tokens()
    if as_json:
        show.data({"tokens": found})
    elif found:
        rows = [[t["name"], _what(t), _date(t["created_at"]), _until(t), show.ago(t["last_used_at"])] for t in found]
        show.table(["NAME", "OPENS", "MADE", "GOOD", "LAST_USED"], rows)
    else:
        show.note("there are none; the home's own token, in its file `token`, is an admin's")


@command.command("revoke")
@click.argument("name")
def revoke(name: str) -> None:
    """Make the token of NAME worth nothing, at once. Its jobs go on."""
    session.client().revoke_token(name)
    show.done(f"the token of {name} is revoked")


def _what(token: Mapping[str, Any]) -> str:
    if token["admin"]:
        return "everything"
    if token["metrics"]:
        return "/metrics"
    return ", ".join([*token["projects"], *(f"gs://{bucket}" for bucket in token["buckets"])]) or "every project"


def _until(token: Mapping[str, Any]) -> str:
    return f"until {_date(token['expires_at'])}" if token["expires_at"] else "until it is revoked"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
