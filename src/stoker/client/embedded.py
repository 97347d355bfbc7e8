"""The embedded server of a home: found if it runs, started if it is needed, and named when it was started."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.config import Config
from stoker.core.errors import Unavailable

from .client import Client

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Found:
    """A server that runs."""

    url: str
    pid: int
    token: str
    version: str


def find(config: Config) -> Found | None:
    """The server of this home, if it runs: whoever holds the home's lock."""
    home = config.home
    try:
        about: Mapping[str, Any] = json.loads((home / "server.json").read_text())
        token = (home / "token").read_text().strip()
    except (OSError, ValueError):
        return None
    if not is_locked(home):
        return None
    return Found(url=str(about["url"]), pid=int(about["pid"]), token=token, version=str(about["version"]))


def is_locked(home: Path) -> bool:
    """Whether some server holds this home."""
    try:
        with open(home / "server.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def start(config: Config, flags: Sequence[str] = ()) -> Found:
    """Start the server of this home in the background. Raises Unavailable with the last words of its log."""
    home = config.home
    log = home / "server.log"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(log, "ab") as output:
            begin = output.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "stoker.cli.main", "up", "--foreground", *flags],
                env={**os.environ, "STOKER_HOME": str(home)},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise Unavailable(
            f"{home} cannot be used: {error.strerror or error}", fix="set STOKER_HOME to a folder of yours"
        ) from None
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        found = find(config)
        if found is not None and found.pid == process.pid:
            return found
        if process.poll() is not None:
            with open(log, "rb") as written:
                written.seek(begin)
                raise Unavailable(written.read().decode(errors="replace").strip()[-2000:] or "the server ended at once")
        time.sleep(0.02)
    raise Unavailable(f"the server did not start within {START_SECONDS:g} s", fix=f"its log is {log}")


def stop(config: Config, found: Found, seconds: float = 20.0) -> list[str]:
    """End the server and wait until it has. Returns the jobs that go on running."""
    client = Client(found.url, found.token)
    try:
        running: list[str] = client.shutdown()["running"]
    except Unavailable:
        running = []
        os.kill(found.pid, signal.SIGTERM)
    finally:
        client.close()
    until = time.monotonic() + seconds
    while is_locked(config.home):
        if time.monotonic() > until:
            raise Unavailable(f"the server (process {found.pid}) does not end", fix=f"end it: kill {found.pid}")
        time.sleep(0.02)
    return running
