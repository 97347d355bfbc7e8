"""A place that is kept after a failure: whoever connects to its socket gets a shell there, run as the program was.

The shell is the supervisor's child: in the same kind of sandbox, as the same user and with the same GPUs as the program, and
found and ended like it. It has the files that come with the connection: a terminal of its own, or what the caller has.

    caller  a byte, and with it three files: input, output, errors; then a line {"command": [...], "terminal": {...} or null}
    we      a line {"exit": n} or {"problem": "..."}; none, if the place is given back
    caller  hangs up when it goes away
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from .errors import complain
from .folder import Folder, short_path
from .processes import Process, descendants, send, signal_all
from .program import reap_orphans, spawn
from .sandbox import Sandbox

_LOOK_SECONDS = 0.2
_ASK_SECONDS = 2.0
_GRACE_SECONDS = 5.0
_FILES = 3
# A session of its own with this terminal: Ctrl-C and job control reach what runs there, and nothing else.
_WITH_TERMINAL = """\
import fcntl, os, sys, termios
try: os.setsid()
except OSError: pass
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
try: os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error: sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""


class Place:
    """The place of a program that has failed."""

    def __init__(
        self, folder: Folder, sandbox: Sandbox, environment: Dict[str, str], readable: Sequence[str], python: str
    ) -> None:
        """`readable`: of Stoker's own folders, what a shell is to see."""
        self._folder = folder
        self._sandbox = sandbox
        self._environment = environment
        self._readable = readable
        self._python = python
        self._shells: "Dict[socket.socket, subprocess.Popen[bytes]]" = {}
        self._deserted: "Dict[float, subprocess.Popen[bytes]]" = {}  # whose caller has gone, by when each is killed
        self._selector = selectors.DefaultSelector()

    def keep(self, seconds: float, give_up: Callable[[], bool], wake: int) -> bool:
        """Until the time is over, or it is given up. Returns which: whether the time was over. No shell outlives it."""
        until = time.monotonic() + seconds
        listener = self._listen()
        self._selector.register(wake, selectors.EVENT_READ)
        try:
            while time.monotonic() < until and not give_up():
                for key, _ in self._selector.select(_LOOK_SECONDS):
                    if key.fileobj is listener:
                        self._answer(listener)
                    elif isinstance(key.fileobj, socket.socket):
                        self._desert(key.fileobj)
                    else:
                        os.read(wake, 512)
                self._look()
            return not give_up()
        finally:
            if listener is not None:
                os.unlink(self._folder.shell_file)
                listener.close()
            self._end_all()
            self._selector.close()

    def _listen(self) -> Optional[socket.socket]:
        listener = socket.socket(socket.AF_UNIX)
        try:
            with short_path(self._folder.shell_file) as path:
                listener.bind(path)  # in a folder that is closed to other users, and that no sandbox shows
            listener.listen()
        except OSError as error:
            complain(f"no shell can be opened at the place that is kept: {error}")
            listener.close()
            return None
        self._selector.register(listener, selectors.EVENT_READ)
        return listener

    def _answer(self, listener: socket.socket) -> None:
        """Start a shell for whoever connects."""
        try:
            connection, _ = listener.accept()
        except OSError as error:  # it hung up already, or no more files can be opened: the place is kept
            complain(f"nobody could be let into the place that is kept: {error}")
            time.sleep(_LOOK_SECONDS)
            return
        connection.settimeout(_ASK_SECONDS)  # who connects and does not ask keeps nobody waiting for long
        files: List[int] = []
        try:
            _, files, _, _ = socket.recv_fds(connection, 1, _FILES)
            with connection.makefile(encoding="utf-8") as stream:
                asked: Dict[str, Any] = json.loads(stream.readline())
            self._shells[connection] = self._start(asked["command"], asked["terminal"], files)
        except (OSError, ValueError, LookupError, TypeError) as error:
            _tell(connection, {"problem": _problem(error)})
            connection.close()
        else:
            self._selector.register(connection, selectors.EVENT_READ)
        finally:
            for file in files:
                os.close(file)

    def _start(
        self, command: List[str], terminal: Optional[Mapping[str, str]], files: Sequence[int]
    ) -> "subprocess.Popen[bytes]":
        """`terminal`: the variables that tell of it; None without one. Raises OSError or ValueError."""
        if len(files) != _FILES:
            raise ValueError("its files have not come")
        if not command:
            raise ValueError("there is no command")
        if terminal is not None:
            command = [self._python, "-I", "-S", "-c", _WITH_TERMINAL, *command]
        environment = {**self._environment, **(terminal or {})}
        return spawn(command, environment, self._folder.work, self._sandbox, self._readable, files)

    def _look(self) -> None:
        """Answer for shells that have ended, and end those whose callers have long gone."""
        for connection, shell in list(self._shells.items()):
            if shell.poll() is not None:
                code = self._sandbox.code(shell.returncode)
                _tell(connection, {"exit": code if code >= 0 else 128 - code})
                self._close(connection)
        for kill_at, shell in list(self._deserted.items()):
            if shell.poll() is not None:
                del self._deserted[kill_at]
            elif time.monotonic() >= kill_at:
                for process in _tree(shell):
                    send(process, signal.SIGKILL)
        reap_orphans({shell.pid for shell in (*self._shells.values(), *self._deserted.values())})
        if self._sandbox.needs_notes and self._shells:
            self._sandbox.note_processes(descendants())

    def _desert(self, connection: socket.socket) -> None:
        """End a shell whose caller has hung up: what runs there is told so, and killed if it does not end."""
        shell = self._shells[connection]
        self._close(connection)
        for process in _tree(shell):
            if process.pid not in self._sandbox.own_processes:  # those would end all the others at once
                send(process, signal.SIGHUP)
        self._deserted[time.monotonic() + _GRACE_SECONDS] = shell

    def _end_all(self) -> None:
        """Everybody is told to leave, and killed who does not."""
        for connection in list(self._shells):
            self._close(connection)
        kill_at = time.monotonic() + _GRACE_SECONDS
        signal_all(signal.SIGHUP, frozenset(self._sandbox.own_processes))
        while descendants():
            if time.monotonic() >= kill_at:
                signal_all(signal.SIGKILL)
            reap_orphans(())
            time.sleep(_LOOK_SECONDS / 10)

    def _close(self, connection: socket.socket) -> None:
        del self._shells[connection]
        self._selector.unregister(connection)
        connection.close()


def _tree(shell: "subprocess.Popen[bytes]") -> List[Process]:
    """A shell and what is below it."""
    return [process for process in descendants() if process.pid == shell.pid] + descendants(shell.pid)


def _problem(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    if isinstance(error, PermissionError):
        return "it may not be executed"
    return str(error)


def _tell(connection: socket.socket, told: Mapping[str, Any]) -> None:
    try:
        connection.sendall(json.dumps(told).encode() + b"\n")
    except OSError:
        pass  # it has gone meanwhile
