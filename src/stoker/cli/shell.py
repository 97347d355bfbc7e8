"""A shell at the place of a program that has failed. The supervisor starts it there; here it is shown."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stoker.core.errors import Forbidden, NotFound, NotReady, Violation
from stoker.runtime.folder import short_path

from . import show
from .outlook import clock

_OF_A_TERMINAL = ("TERM", "COLORTERM", "LANG", "LC_ALL")
_HUNG_UP = 128 + signal.SIGHUP


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
    place = held[replica]
    words = list(command or [os.environ.get("SHELL") or "/bin/sh"])

    with _connected(home / "runs" / attempt["id"] / replica / "shell", replica, place["node"]) as connection:
        until = clock(place["held_until"], time.time())
        show.progress(f"at the place of {replica}, kept until {until}; give it back: stoker jobs release {name}")
        is_terminal = os.isatty(0) and os.isatty(1)
        told = _at_a_terminal(connection, words) if is_terminal else _plain(connection, words)
    if "problem" in told:
        raise NotFound(f"{words[0]!r} cannot be run there: {told['problem']}")
    if "exit" not in told:
        show.warn("the place is given back: this shell has ended")
    return int(told.get("exit", _HUNG_UP))


@contextmanager
def _connected(path: Path, replica: str, node: str) -> Iterator[socket.socket]:
    """To the supervisor, who waits there."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            with short_path(str(path)) as short:
                connection.connect(short)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise NotFound(
                f"the place of {replica} is not on this machine, or not below this home",
                fix=f"run this on the machine of the node {node}, with the server's STOKER_HOME",
            ) from None
        except OSError as error:
            raise Forbidden(
                f"the place of {replica} cannot be entered: {error.strerror}",
                fix="run this as the user that the server runs as",
            ) from None
        yield connection


def _ask(connection: socket.socket, words: Sequence[str], terminal: Mapping[str, str] | None, files: list[int]) -> None:
    with suppress(BrokenPipeError):  # given back at this moment: there is no answer then
        socket.send_fds(connection, [b"\0"], files)
        connection.sendall(json.dumps({"command": list(words), "terminal": terminal}).encode() + b"\n")


def _answer(connection: socket.socket) -> dict[str, Any]:
    """What the supervisor has told in the end; nothing, if the place is given back."""
    with suppress(ConnectionResetError), connection.makefile(encoding="utf-8") as stream:
        line = stream.readline()
        return dict(json.loads(line)) if line else {}
    return {}


def _plain(connection: socket.socket, words: Sequence[str]) -> dict[str, Any]:
    """With our own input and output. Who interrupts us hangs up, and that ends it."""
    _ask(connection, words, None, [0, 1, 2])
    return _answer(connection)


def _at_a_terminal(connection: socket.socket, words: Sequence[str]) -> dict[str, Any]:
    """At a terminal of its own, which ours shows: what runs there cannot reach ours."""
    ours, theirs = os.openpty()
    variables = {name: os.environ[name] for name in _OF_A_TERMINAL if name in os.environ}
    _copy_size(ours)
    _ask(connection, words, variables, [theirs] * 3)
    os.close(theirs)
    before = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(ours))
    settings = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        _pass_on(connection, ours)
        return _answer(connection)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, settings)
        signal.signal(signal.SIGWINCH, before)
        os.close(ours)


def _pass_on(connection: socket.socket, ours: int) -> None:
    """What is typed goes there, and what is printed comes here, until the supervisor says that it is over."""
    sources = [0, ours, connection.fileno()]
    while True:
        ready = select.select(sources, [], [])[0]
        if ours in ready:
            try:
                printed = os.read(ours, 1 << 16)
            except OSError:  # nobody has it open any more
                printed = b""
            if printed:
                os.write(1, printed)
                continue  # first all that was printed
            sources.remove(ours)
        if connection.fileno() in ready:
            return
        if 0 in ready:
            typed = os.read(0, 1 << 12)
            if typed:
                os.write(ours, typed)
            else:
                sources.remove(0)


def _copy_size(ours: int) -> None:
    """Make their terminal as large as ours."""
    with suppress(OSError):
        fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8)))
