"""The folder of one replica, and the names of the files in it. The engine makes it; the supervisor lives in it.

<attempt>/stop                  made by the engine: nothing starts any more, and what runs ends
<attempt>/<role>-<index>/
    request.json   0600         what to run; holds the attempt's token and the job's variables, until the attempt has ended
    lock                        held (flock) as long as the supervisor lives: no guessing by process ids
    pid                         the supervisor's process id, good while the lock is held
    status.json                 what the supervisor last knew
    processes.json              by what its processes are known, should the supervisor not be there to end them
    log.jsonl                   every line of output, in order
    ask.json                    made by the engine: what a user wants to know of it now
    supervisor.err              what the supervisor itself has to complain about
    beat/beat                   touched by the program, if it cares to say that it goes on; the folder is the program's
    shell          0600         while the place is kept after a failure: the socket for who wants a shell there
    environment/                of a container that installs packages: where it does so
    work/                       the program's working directory, fresh for the attempt
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

_LOCK_TRIES = 50
_LONGEST_SOCKET_BYTES = 100  # the kernel's limit is 107, or 103


class Folder:
    """Names and small files of a replica's folder."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.request_file = os.path.join(self.path, "request.json")
        self.lock_file = os.path.join(self.path, "lock")
        self.pid_file = os.path.join(self.path, "pid")
        self.status_file = os.path.join(self.path, "status.json")
        self.processes_file = os.path.join(self.path, "processes.json")
        self.log_file = os.path.join(self.path, "log.jsonl")
        self.errors_file = os.path.join(self.path, "supervisor.err")
        self.ask_file = os.path.join(self.path, "ask.json")
        self.beat_folder = os.path.join(self.path, "beat")
        self.beat_file = os.path.join(self.beat_folder, "beat")
        self.shell_file = os.path.join(self.path, "shell")
        self.work = os.path.join(self.path, "work")
        self.stop_file = os.path.join(os.path.dirname(self.path), "stop")

    def read_request(self) -> Dict[str, Any]:
        """What to run."""
        with open(self.request_file, encoding="utf-8") as file:
            request: Dict[str, Any] = json.load(file)
        return request

    def forget_secrets(self) -> None:
        """Take the token and the variables out of the request: nothing starts by it any more."""
        try:
            request = self.read_request()
            if request.get("env") or request.get("token"):
                write_whole(self.request_file, json.dumps({**request, "env": {}, "token": ""}))
        except (OSError, ValueError, AttributeError, RecursionError):
            pass  # it was never written whole, or there is no room: it is closed to others as before

    def read_status(self) -> Dict[str, Any]:
        """What the supervisor last knew; empty if it never wrote. Raises ValueError if that cannot be read."""
        try:
            with open(self.status_file, encoding="utf-8") as file:
                status: Dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        except RecursionError:
            raise ValueError(f"{self.status_file} is nested too deeply") from None
        if not isinstance(status, dict):
            raise ValueError(f"{self.status_file} holds no table")
        return status

    def write_status(self, status: Dict[str, Any]) -> None:
        """Replace the status whole."""
        write_whole(self.status_file, json.dumps(status))

    def read_processes(self) -> Dict[str, Any]:
        """By what the replica's processes are known: `namespace` and `processes`; empty if nothing of it can be read."""
        try:
            with open(self.processes_file, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def should_stop(self) -> bool:
        """Whether the engine has fenced the attempt."""
        return os.path.exists(self.stop_file)

    def lock(self) -> Optional[int]:
        """Take the supervisor's lock for the life of this process: a file descriptor, or None if another has it."""
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(_LOCK_TRIES):  # who only asks whether it is held, holds it for a moment
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except OSError:
                time.sleep(0.01)
        os.close(descriptor)
        return None

    def supervisor_lives(self) -> bool:
        """Whether some process holds the lock."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False


def write_whole(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file by temp-then-rename: a reader sees all of it or none."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """A path by which a socket can be made or reached, however deep its folder lies. Raises OSError."""
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_BYTES:
        yield path
        return
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{os.path.basename(path)}"
    finally:
        os.close(descriptor)


def files_in(folder: str) -> Dict[str, "tuple[int, int]"]:
    """Every file below a folder with its size and time, less the caches of Python."""
    found: Dict[str, "tuple[int, int]"] = {}
    for base, _, names in os.walk(folder):
        if os.path.basename(base) != "__pycache__":
            for name in names:
                stat = os.lstat(os.path.join(base, name))
                found[os.path.join(base, name)] = (stat.st_size, stat.st_mtime_ns)
    return found
