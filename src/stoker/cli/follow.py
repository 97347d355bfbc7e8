"""Follows a job on the terminal: its states and reasons, its lines, and its end. Returns the exit code to end with."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from stoker.core.errors import NotFound, StokerError

from . import show
from .outlook import clock, diagnosed

if TYPE_CHECKING:
    from stoker.client.client import Client

CODES = {"SUCCEEDED": 0, "FAILED": 100, "CANCELLED": 103}
"""The exit codes of `wait --status-codes`."""

_STATES = {"QUEUED": "queued", "PREPARING": "starting", "RUNNING": "running", "CANCELLING": "stopping"}
_SYMBOLS = {"FAILED": ("✗", "red"), "CANCELLED": ("■", "yellow")}


def follow(client: Client, project: str, name: str, *, logs: bool = True, replica: str = "") -> int:
    """Show what happens until the job has ended. Ctrl-C leaves the job running."""
    screen = Screen(name, replica=replica)
    try:
        for event in client.stream(project, name, logs=logs):
            screen.show(event)
            if event["kind"] == "end":
                show.note(after(client.details(project, name)))
                for line in held_up(client, project, name):
                    show.note(line)
                return int(event["exit_code"])
    except KeyboardInterrupt:
        show.note(f"\n{name} goes on. See it again: stoker logs -f {name}   End it: stoker jobs cancel {name}")
        return 130
    return 1


def after(details: dict[str, Any]) -> str:
    """What an ended job died of, where its files are, and what to try next."""
    name, state = details["name"], details["state"]
    failed = state == "FAILED"
    died_of = diagnosed(newest_diagnosis(details)) if failed else ()
    tries = [f"stoker logs {name}", f"stoker jobs describe {name}"]
    if failed:
        tries.insert(1, f"stoker why {name}")
    return "\n".join([*map("  {}".format, died_of), *where(details), f"  Next:  {'   ·   '.join(tries)}"])


def held_up(client: Client, project: str, name: str) -> list[str]:
    """The first thing that held its training up, if anything did."""
    try:
        found = client.findings(project, name)["findings"][:1]
    except StokerError:  # the server ends with its last job
        return []
    return [f"  {first['text']}   \u2192 stoker diagnose {name}" for first in found if not first["is_good"]]


def newest_diagnosis(details: dict[str, Any]) -> dict[str, Any] | None:
    """What a job's newest attempt died of."""
    found: dict[str, Any] | None = details["attempts"][-1]["diagnosis"] if details["attempts"] else None
    return found


def held(details: dict[str, Any]) -> list[str]:
    """Which places are kept after a failure, and which replicas stand still."""
    replicas = details["attempts"][-1]["replicas"] if details["attempts"] else []
    now, name = time.time(), details["name"]
    return [
        *(
            f"  {r['name']} is held after a failure until {clock(r['held_until'], now)}: stoker jobs shell {name}"
            f" --replica {r['name']}   ·   stoker jobs release {name}"
            for r in replicas
            if r["held_until"] is not None
        ),
        *(
            f"  {r['name']} stands still, as is known since {clock(r['quiet_since'], now)}: stoker logs {name}"
            for r in replicas
            if r["quiet_since"] is not None
        ),
    ]


def where(details: dict[str, Any]) -> list[str]:
    """Where a job's files are on this disk, if its bucket is a folder."""
    uri, path = details["job_dir"], details["job_dir_path"]
    return [f"  files of {uri} are in {path}"] if path not in ("", uri) else []


def replica_named(details: dict[str, Any], text: str) -> str:
    """The replica that is meant: worker-0, or gcloud's worker-replica-0; the chief is also called master. Raises NotFound."""
    wanted = re.sub(r"^master\b", "chief", text).replace("-replica-", "-")
    known = [f"{group['role']}-{n}" for group in details["machines"] for n in range(group["count"])]
    if wanted not in known:
        some = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if known[8:] else "")
        raise NotFound(f"{details['name']} has no replica {text!r}", fix=f"there are {some}")
    return wanted


class Screen:
    """What is on the terminal of one job so far."""

    def __init__(self, name: str, *, quiet: bool = False, replica: str = "") -> None:
        """`quiet`: its lines only. `replica`: the lines of this one only."""
        self._name = name
        self._quiet = quiet
        self._only = replica
        self._said = ""
        self._numbers: dict[str, int] = {}
        self._alone = True

    def show(self, event: dict[str, Any]) -> None:
        """Show one event of the stream."""
        match event["kind"]:
            case "log":
                self.line(event)
            case "state":
                self._state(event)
            case "cut":
                self._said = ""
                show.warn(f"{event['message']}; trying to reach the server again")
            case "end" if not self._quiet:
                self._end(event)

    def line(self, event: dict[str, Any]) -> None:
        """A line of output: plain for a job of one replica, else with the replica's name before it."""
        replica, text = event["replica"], event["text"]
        if self._only not in ("", replica):
            return
        if event["stream"] == "service" and not text.strip():
            return
        if event["stream"] == "service":
            show.progress(f"{replica}: {text}")
            return
        number = self._numbers.setdefault(replica, len(self._numbers))
        before = "" if self._alone or self._only else show.replica(replica.ljust(9), number) + " "
        show.say(before + show.safe(text), err=event["stream"] == "err")

    def _state(self, event: dict[str, Any]) -> None:
        self._alone = event["replicas"] == 1
        text = _STATES.get(event["state"])
        if text is None or self._quiet:
            return
        if event["state"] == "QUEUED" and event.get("reason"):
            text = f"waits: {event['reason']['text']}"
        if event["state"] == "PREPARING" and not self._alone:
            text = f"starting {event['replicas']} replicas"
        if event["attempt"] > 1:
            text += f" (attempt {event['attempt']})"
        if text != self._said:
            self._said = text
            show.progress(f"{self._name} {text}")

    def _end(self, event: dict[str, Any]) -> None:
        took = show.duration(event["ended_at"] - (event["started_at"] or event["submitted_at"]))
        if event["state"] == "SUCCEEDED":
            show.done(f"{self._name} succeeded in {took}")
            return
        symbol, colour = _SYMBOLS.get(event["state"], _SYMBOLS["FAILED"])
        show.note(f"{show.coloured(symbol, colour, err=True)} {self._name} {event['state'].lower()} after {took}")
        lines = event["message"].splitlines()
        for line in lines[:1] if event["state"] == "FAILED" else lines:  # its diagnosis tells the rest
            show.note(f"  {line}")
