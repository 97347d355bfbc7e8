"""`stoker config`: show and change settings."""

from __future__ import annotations

import click

from stoker.cli import session, show
from stoker.cli.main import Nouns
from stoker.config import BY_NAME, SETTINGS, shown, write_setting
from stoker.core.errors import BadSpec, Violation


@click.group("config", cls=Nouns)
def command() -> None:
    """Show and change settings. A flag beats the environment, then ./stoker.yaml, then the home's config.yaml."""


@command.command("list")
@session.json_option
def list_all(as_json: bool) -> None:
    """Every setting, its value, and where that comes from."""
    values = session.config().values
    if as_json:
        show.data(
            {"settings": [{"name": n, "value": shown(n, v.value), "source": v.source} for n, v in values.items()]}
        )
        return
    rows = [[s.name, _shown(s.name, values[s.name].value), values[s.name].source, s.help] for s in SETTINGS]
    show.table(["SETTING", "VALUE", "FROM", "WHAT IT IS"], rows)


@command.command("get")
@click.argument("name")
def get(name: str) -> None:
    """The value of a setting."""
    click.echo(_shown(_known(name), session.config()[name]))


@command.command("explain")
@click.argument("name")
def explain(name: str) -> None:
    """What a setting is, its value, and where that comes from."""
    setting, value = BY_NAME[_known(name)], session.config().values[name]
    click.echo(f"{name} = {_shown(name, value.value)}   (from {value.source}; default {setting.default!r})")
    click.echo(f"  {setting.help}")
    click.echo(f"  Set it: stoker config set {name} VALUE, or STOKER_{name.upper()}=VALUE")


@command.command("set")
@click.argument("name")
@click.argument("value")
def set_one(name: str, value: str) -> None:
    """Keep a setting in the home's config.yaml. A running server reads it at its next start."""
    write_setting(session.config(), _known(name), value)
    show.done(f"{name} is kept in {session.config().home / 'config.yaml'}")


@command.command("unset")
@click.argument("name")
def unset(name: str) -> None:
    """Drop a setting from the home's config.yaml."""
    write_setting(session.config(), _known(name), None)
    show.done(f"{name} is back to what it was without config.yaml")


def _known(name: str) -> str:
    from difflib import get_close_matches

    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY_NAME)}"
        raise BadSpec([Violation(name, f"no such setting; {hint}")])
    return name


def _shown(name: str, value: object) -> str:
    value = shown(name, value)
    if isinstance(value, dict):
        return ",".join(f"{key}={text}" for key, text in value.items())
    return str(value)
