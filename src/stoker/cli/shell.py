"""A shell at the place of a program that has failed: in its folder, with its environment. Ended when the place is given back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.core.errors import Forbidden, NotFound, NotReady, Violation

from . import show
from .outlook import clock

_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 5.0


def open_shell(details: Mapping[str, Any], home: Path, replica: str, command: Sequence[str] | None) -> int:
    """Run a shell, or a command, at a kept place of a job. `replica`: whose; empty: the first. Returns its exit code."""
    name = details["name"]
    attempt: Mapping[str, Any] = details["attempts"][-1] if details["attempts"] else {"id": "", "replicas": []}
    held = {r["name"]: r for r in attempt["replicas"] if r["held_until"] is not None}
    if not held or (replica and replica not in held):
        problem = f"the place of {replica} is not kept" if replica else "no place of it is kept"
        names = f"; kept now: {', '.join(held)}" if held else ""
        raise NotReady([Violation(name, problem)], fix=f"after a failure, with --hold-on-failure 30m{names}")
    replica = replica or next(iter(held))
    file = home / "runs" / attempt["id"] / replica / "shell"
    place = _read(file, replica, held[replica]["node"])
    words = list(command or [os.environ.get("SHELL") or "/bin/sh"])

    show.progress(
        f"at the place of {replica}, kept until {clock(place['until'], time.time())}; give it back: stoker jobs release {name}"
    )
    return _run(words, place, file)


def _read(file: Path, replica: str, node: str) -> dict[str, Any]:
    try:
        place: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"the place of {replica} is not on this machine, or not below this home",
            fix=f"run this on the machine of the node {node}, with the server's STOKER_HOME",
        ) from None
    except (OSError, ValueError) as error:
        raise Forbidden(f"the place of {replica} cannot be entered: {error}") from None
    return place


def _run(words: Sequence[str], place: Mapping[str, Any], file: Path) -> int:
    """Run it in the foreground; end it when the place is given back."""
    terminal = {name: os.environ[name] for name in ("TERM", "LANG", "LC_ALL", "COLUMNS", "LINES") if name in os.environ}
    environment = {**place["environment"], **terminal}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for what runs there
    try:
        process = subprocess.Popen(
            words, cwd=place["folder"], env=environment, restore_signals=True, preexec_fn=_default
        )
    except OSError as error:
        raise NotFound(f"{words[0]!r} cannot be run there: {error.strerror}") from None
    else:
        while True:
            try:
                return process.wait(_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if not file.exists():
                    show.warn("the place is given back: this shell ends")
                    _end(process)
                    return process.returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _default() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGHUP)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
