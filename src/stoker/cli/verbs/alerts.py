"""`stoker alerts`: be told of what happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.main import Nouns
from stoker.registry import MEMBERS

_TAKES = {"email": "ADDRESS"}  # others take a URL


@click.group("alerts", cls=Nouns)
def command() -> None:
    """Be told of jobs that fail or hang, of slow replicas, idle GPUs, and what befalls the site.

    docs/alerts.md lists the events, and says how a receiver checks that a message is the server's.
    """


def _channel_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each channel."""
    for name in sorted(MEMBERS["channels"], reverse=True):
        takes = _TAKES.get(name, "URL")
        text = f"Where to, by {name}; - reads it from standard input."
        function = click.option(f"--{name}", f"to_{name}", metavar=takes, help=text)(function)
    return function


@command.command("add")
@click.argument("name")
@_channel_options
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="EVENT",
    help="Tell of this event, such as job-ended (docs/alerts.md lists them); may be repeated.  [default: what matters of jobs]",
)
@click.option("--project", default="", help="Only jobs of this project.  [default: all that the token opens]")
@click.option("--jobs", default="", metavar="PATTERN", help="Only jobs whose name fits, such as 'train_*'.")
@click.option("--everyone", is_flag=True, help="Jobs of others, too.")
@session.json_option
def add(name: str, as_json: bool, **asked: Any) -> None:
    """Add a rule by the name NAME: who is told what, from now on.

    A webhook's messages are signed by a secret, which is printed this once.
    """
    targets = {key.removeprefix("to_"): asked.pop(key) for key in list(asked) if key.startswith("to_")}
    given = {channel: target for channel, target in targets.items() if target is not None}
    if len(given) != 1:
        flags = ", ".join(f"--{channel}" for channel in targets)
        raise click.UsageError(f"one of {flags} is needed" + (", and no more than one" if given else ""))
    ((channel, target),) = given.items()
    if target == "-":
        target = sys.stdin.readline().strip()
    body = {"name": name, "channel": channel, "target": target, **asked, "events": list(asked["events"])}
    made = session.client().add_alert(body)
    if as_json:
        show.data(made)
        return
    if made["secret"]:
        click.echo(made["secret"])
        show.note("the secret of its signatures; it is not shown again")
    show.done(f"{name} tells {made['target']} of {', '.join(made['events'])}; try it: stoker alerts test {name}")


@command.command("list")
@click.option("--everyone", is_flag=True, help="Rules of all users; for admins.")
@session.json_option
def list_(everyone: bool, as_json: bool) -> None:
    """List rules, and what became of what they told in the last week."""
    found = session.client().alerts(everyone=everyone)
    if as_json:
        show.data({"rules": found})
    elif found:
        heads = ["NAME", *(["OWNER"] if everyone else []), "TO", "EVENTS", "OF", "SENT", "WAIT", "GIVEN_UP"]
        rows = [
            [
                rule["name"],
                *([rule["owner"]] if everyone else []),
                f"{rule['channel']} {rule['target']}",
                ",".join(rule["events"]),
                _of(rule),
                rule["delivered"],
                rule["waiting"],
                rule["given_up"] + rule["left_out"],
            ]
            for rule in found
        ]
        show.table(heads, rows)
        for rule in found:
            if text := _trouble(rule):
                show.warn(f"{rule['name']}: {text}")
    else:
        show.note("there are none: stoker alerts add NAME --webhook URL")


@command.command("test")
@click.argument("name")
@click.option("--owner", default="", help="Whose rule; those of others are for admins.  [default: one's own]")
@session.json_option
def test(name: str, owner: str, as_json: bool) -> None:
    """Send a message by the rule NAME now, and say what came back. Exits with 1 if it was not taken."""
    found = session.client().test_alert(name, owner=owner)
    if as_json:
        show.data(found)
    elif found["delivered"]:
        show.done(f"taken: {found['answer']}")
    else:
        show.warn(f"not taken: {found['answer']}")
    if not found["delivered"]:
        raise SystemExit(1)


@command.command("remove")
@click.argument("name")
@click.option("--owner", default="", help="Whose rule; those of others are for admins.  [default: one's own]")
def remove(name: str, owner: str) -> None:
    """Remove the rule NAME. What is on its way by it is not sent."""
    session.client().remove_alert(name, owner=owner)
    show.done(f"{name} is removed")


def _of(rule: Mapping[str, Any]) -> str:
    """Whose jobs it tells of."""
    whose = "all jobs" if rule["everyone"] else "own jobs"
    return " ".join(
        [whose, *([rule["jobs"]] if rule["jobs"] else []), *([f"in {rule['project']}"] if rule["project"] else [])]
    )


def _trouble(rule: Mapping[str, Any]) -> str:
    """Why something waits; empty: nothing does."""
    if rule["left_out"]:
        return f"{rule['left_out']} alerts were left out, for too many waited; the last answer: {rule['last_answer']}"
    if rule["last_answer"] and rule["next_try_at"]:
        return f"{rule['last_answer']}; again at {datetime.fromtimestamp(rule['next_try_at']).strftime('%H:%M:%S')}"
    if rule["given_up"]:
        return f"{rule['given_up']} were given up in the last week; the last answer: {rule['last_answer']}"
    return ""
