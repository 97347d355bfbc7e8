"""Brings a file of the job to this machine, once for all replicas that need it here."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from typing import IO, Any, Callable, Dict

from .server import LONGEST_PAUSE_SECONDS, Server, Unreachable


def fetch(server: Server, cache: str, file: Dict[str, Any], give_up: Callable[[], bool]) -> str:
    """The path of the file here. `file`: its number in the launch, its name, and a stamp that changes with its content."""
    folder = os.path.join(cache, "files", hashlib.sha256(file["stamp"].encode()).hexdigest()[:32])
    path = os.path.join(folder, file["name"])
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".lock"), "w") as lock:
        while not _taken(lock):
            if give_up():
                raise OSError(f"stopped while another replica fetched {file['name']}")
            time.sleep(0.05)
        pause = 0.1
        while not os.path.exists(path):
            if give_up():
                raise OSError(f"stopped before {file['name']} was fetched")
            try:
                with open(path + ".part", "wb") as part:
                    server.download(f"files/{file['number']}", part)
                os.replace(path + ".part", path)
            except Unreachable:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
    return path


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
