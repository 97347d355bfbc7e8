"""A Stoker server of our own, with its home in a temporary folder; gone at the end, with all that it started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config
from stoker.core.errors import StokerError

PROJECT = "bench"
_END_SECONDS = 20.0


class Server:
    """`with Server() as server:` a server that runs jobs; `Server("--hold")` accepts them and starts none.

    `settings`: those of its config.yaml, such as the engine.
    """

    found: embedded.Found
    client: Client

    def __init__(self, *flags: str, settings: Mapping[str, object] | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
        if settings:
            (self.home / "config.yaml").write_text(json.dumps(settings))  # YAML, too
        self._flags = ("--port=0", *flags)
        self._config: Config = read_config({"STOKER_HOME": str(self.home)})

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if embedded.is_locked(self.home):
                self._cancel_jobs()
                self.kill()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the command line finds this server."""
        return {**os.environ, "STOKER_HOME": str(self.home), "STOKER_PROJECT": PROJECT, "NO_COLOR": "1"}

    def start(self) -> None:
        """Start it, again after a kill."""
        self.found = embedded.start(self._config, self._flags)
        self.client = Client(self.found.url, self.found.token)

    def kill(self) -> None:
        """End it with SIGKILL: it can write nothing any more."""
        self.client.close()
        os.kill(self.found.pid, signal.SIGKILL)
        wait_until(lambda: not embedded.is_locked(self.home), "the killed server to be gone")

    def run(self, name: str, *command: str) -> None:
        """Submit a job of one vCPU."""
        self.client.run(PROJECT, {"name": name, "command": list(command)})

    def wait_for_rest(self, seconds: float = 300.0, pause: float = 0.05) -> None:
        """Wait until no job waits or runs."""
        wait_until(lambda: not self.client.live_jobs(), "all jobs to end", seconds, pause)

    def _cancel_jobs(self) -> None:
        """What runs would outlive the server."""
        if "--hold" in self._flags:
            return
        try:
            for job in self.client.live_jobs():
                self.client.cancel(job["project"], job["name"])
            self.wait_for_rest(_END_SECONDS)
        except StokerError as error:
            print(f"could not end the jobs of {self.home}: {error}", file=sys.stderr)


def stoker_command() -> list[str]:
    """The command line as users have it: the script beside this Python."""
    script = Path(sys.executable).with_name("stoker")
    return [str(script)] if script.exists() else [sys.executable, "-m", "stoker.cli.main"]


def wait_until(is_true: Callable[[], bool], what: str, seconds: float = _END_SECONDS, pause: float = 0.05) -> None:
    """Ask until it is so. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(pause)
