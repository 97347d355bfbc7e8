"""`stoker config`: show and change settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stoker.cli import session, show
from stoker.cli.main import Nouns
from stoker.config import shown, write_setting
from stoker.core.errors import BadSpec, Violation
from stoker.core.site import Queue
from stoker.settings import BY_NAME, SETTINGS


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


@command.command("check-site")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@session.json_option
def check_site(file: Path | None, as_json: bool) -> None:
    """Check a site file, without a server: FILE, or the one that this home's server would read.

    Prints the rules that it makes together with the settings; or every mistake, each with its line.
    """
    from stoker.site.site_file import read_file, read_site, remarks, with_settings

    settings = session.config()
    site = read_site(settings) if file is None else with_settings(read_file(file, settings["region"]), settings)
    if as_json:
        show.data({"valid": True, "site": asdict(site)})
        return
    rows = [[q.name, q.weight, q.cohort, q.policy or site.policy, _quotas(q)] for q in site.queues.values()]
    show.table(["QUEUE", "WEIGHT", "COHORT", "POLICY", "QUOTA"], rows)
    for text in remarks(site):
        show.warn(text)
    show.done("valid; a server reads it when it starts")


def _quotas(queue: Queue) -> str:
    return ", ".join(f"{name} {quota.nominal_milli / 1000:g}" for name, quota in queue.quotas.items())


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
    return ",".join(value) if isinstance(value, list) else str(value)
