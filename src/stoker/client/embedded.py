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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.config import Config
from stoker.core.errors import Unavailable

from .client import Client

START_SECONDS = 30.0

_started: list[subprocess.Popen[bytes]] = []  # kept, for they are meant to go on when they are forgotten


@dataclass(frozen=True, slots=True)
class Found:
    """A server that runs."""

    url: str
    pid: int
    token: str
    version: str
    needs_token: bool = True
    waits: str = ""  # for what; it answers nothing else until that is there


def find(config: Config) -> Found | None:
    """The server of this home, if it runs: the process that server.json names, while somebody holds the home's lock."""
    found = _named(config.home, "server.json")
    # The process is asked for first: to try a lock is to hold it for a moment, and a server that starts would see that.
    return found if found is not None and _lives(found.pid) and is_locked(config.home) else None


def standing_by(config: Config) -> list[Found]:
    """The servers of this home that take over when the one that leads is gone."""
    named = [_named(config.home, path.name) for path in sorted(config.home.glob("standby-*.json"))]
    return [found for found in named if found is not None and _lives(found.pid)]


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


def start(config: Config, flags: Sequence[str] = (), *, standby: bool = False) -> Found:
    """Start the server of this home in the background; if another command has just done so, that one is found.

    `standby`: one that takes over when the one that runs is gone. Raises Unavailable with the last words of its log.
    """
    home = config.home
    log = home / "server.log"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(log, "ab", opener=_for_me_alone) as output:
            begin = output.tell()
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "stoker.cli.main",
                    "up",
                    "--foreground",
                    *(["--standby"] if standby else []),
                    *flags,
                ],
                env={**os.environ, **_from_project(config), "STOKER_HOME": str(home)},
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
    _started.append(process)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        has_ended = process.poll() is not None
        for found in (find(config), *standing_by(config)):
            if found is not None and (found.pid == process.pid or (has_ended and not standby)):
                return found
        if has_ended and (standby or not is_locked(home)):
            raise _last_words(log, begin)
        time.sleep(0.02)
    raise Unavailable(
        f"the server did not start within {START_SECONDS:g} s; it goes on trying", fix=f"its log, {log}, says why"
    )


def stop(config: Config, found: Found, seconds: float = 20.0) -> list[str]:
    """End the server and wait until it has; one that does not is killed. Returns the jobs that go on running."""
    client = Client(found.url, found.token)
    try:
        running: list[str] = client.shutdown()["running"]
    except Unavailable:
        running = []
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGTERM)
    finally:
        client.close()
    if not _has_ended(config, found, seconds):  # it loses nothing by that: what was accepted is on disk
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGKILL)
        if not _has_ended(config, found, seconds):
            raise Unavailable(f"the server (process {found.pid}) does not end", fix="look what it waits for")
    return running


def _has_ended(config: Config, found: Found, seconds: float) -> bool:
    """Whether a server ends within so many seconds."""
    until = time.monotonic() + seconds
    while _lives(found.pid) and (is_locked(config.home) or found in standing_by(config)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _named(home: Path, file: str) -> Found | None:
    try:
        about: Mapping[str, Any] = json.loads((home / file).read_text())
        return Found(
            url=str(about["url"]),
            pid=int(about["pid"]),
            token=(home / "token").read_text().strip(),
            version=str(about["version"]),
            needs_token=bool(about.get("auth", True)),
            waits=str(about.get("waits", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # it is written anew by the next server


def _lives(pid: int) -> bool:
    for process in _started:
        if process.pid == pid and process.poll() is not None:
            return False  # it has ended, and waited for us to see it
    if pid <= 0:
        return False  # no process, and to kill such a number is to kill many
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _from_project(config: Config) -> dict[str, str]:
    """The settings of the folder's stoker.yaml, as environment: the server runs in its home, and would not see that file."""
    found = {}
    for name, value in config.values.items():
        if Path(value.source).name == "stoker.yaml":
            found[f"STOKER_{name.upper()}"] = _as_text(value.value)
    return found


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={text}" for key, text in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def _for_me_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_words(log: Path, begin: int) -> Unavailable:
    """What a server that did not start wrote to its log, taken apart again into the error and what to do."""
    with open(log, "rb") as written:
        written.seek(begin)
        text = written.read().decode(errors="replace").strip()[-2000:]
    said, _, fix = text.rpartition("error: ")[2].partition("\n  → ")
    return Unavailable(" ".join(said.split()) or "the server ended at once", fix=fix or f"its log is {log}")
