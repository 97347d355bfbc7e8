"""Follows a job on the terminal: its states and reasons, its lines, and its end. Returns the exit code to end with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from . import show

if TYPE_CHECKING:
    from stoker.client.client import Client

CODES = {"SUCCEEDED": 0, "FAILED": 100, "CANCELLED": 103}
"""The exit codes of `wait --status-codes`."""

_STATES = {"QUEUED": "queued", "PREPARING": "starting", "RUNNING": "running", "CANCELLING": "stopping"}


def follow(client: Client, project: str, name: str, *, logs: bool = True, quiet: bool = False) -> int:
    """Show what happens until the job has ended. Ctrl-C leaves the job running."""
    screen = Screen(name, quiet=quiet)
    try:
        for event in client.stream(project, name, logs=logs):
            screen.show(event)
            if event["kind"] == "end":
                return int(event["exit_code"])
    except KeyboardInterrupt:
        show.note(f"\n{name} goes on. See it again: stoker logs -f {name}   End it: stoker jobs cancel {name}")
        return 130
    return 1


class Screen:
    """What is on the terminal of one job so far."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        self._name = name
        self._quiet = quiet
        self._said = ""
        self._replicas: dict[str, int] = {}
        self._alone = True
        self._started = time.time()

    def show(self, event: dict[str, Any]) -> None:
        """Show one event of the stream."""
        match event["kind"]:
            case "log":
                self.line(event)
            case "state":
                self._state(event)
            case "end" if not self._quiet:
                self._end(event)

    def line(self, event: dict[str, Any]) -> None:
        """A line of output: plain for a job of one replica, else with the replica's name before it."""
        if event["stream"] == "service":
            show.progress(f"{event['replica']}: {event['text']}")
            return
        number = self._replicas.setdefault(event["replica"], len(self._replicas))
        if self._alone and number == 0 and event["replica"] == "chief-0":
            click.echo(event["text"], err=event["stream"] == "err")
        else:
            click.echo(
                f"{show.replica(event['replica'].ljust(9), number)} {event['text']}", err=event["stream"] == "err"
            )

    def _state(self, event: dict[str, Any]) -> None:
        self._alone = event.get("replicas", 1 if self._alone else 2) == 1
        text = _STATES.get(event["state"])
        if text is None or self._quiet:
            return
        if event["state"] == "QUEUED" and event.get("reason"):
            text = f"waits: {event['reason']['text']}"
        if event["state"] == "PREPARING" and event.get("replicas", 1) > 1:
            text = f"starting {event['replicas']} replicas"
        if event["attempt"] > 1:
            text += f" (attempt {event['attempt']})"
        if text != self._said:
            self._said = text
            show.progress(f"{self._name} {text}")

    def _end(self, event: dict[str, Any]) -> None:
        took = show.duration(time.time() - self._started)
        if event["state"] == "SUCCEEDED":
            show.done(f"{self._name} succeeded in {took}")
            return
        show.note(f"{show.coloured('✗', 'red', err=True)} {self._name} {event['state'].lower()} after {took}")
        for line in event["message"].splitlines():
            show.note(f"  {line}")
