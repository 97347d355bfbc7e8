"""Servers of the runner's own: one that works, one that starts nothing, both gone when the block is left."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from stoker.client.client import Client
from stoker.client.embedded import Found, find
from stoker.config import read_config
from stoker.core.errors import StokerError

NODES = "20x4xT4,20x8xK80,10x8xV100,10x4xP100,10x4xP4,4x16xA100,4x8xL4,4x8xH100,40xn1-highmem-96"
"""Virtual nodes for every job that the contract's rules allow: no case is refused for want of room."""

_START_SECONDS = 60.0
_END_SECONDS = 30.0


class NoServer(Exception):
    """A server did not start; its last words."""


@contextmanager
def own_servers() -> Iterator[tuple[str, str]]:
    """The addresses of two servers, the second of which starts nothing."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoker-conformance-")))
        begun = [
            stack.enter_context(_server(folder / name, *flags))
            for name, flags in (("normal", ()), ("hold", ("--hold",)))
        ]
        normal, holding = (_wait(home, process) for home, process in begun)
        yield normal.url, holding.url


@contextmanager
def _server(home: Path, *flags: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A server that starts. In a session of its own, so that Ctrl-C reaches it through us, after its jobs have ended."""
    home.mkdir()
    images = {"*": f"{shlex.quote(sys.executable)} -c pass"}  # it stands in for every container image
    settings = {"images": images, "grace_seconds": 1, "unmapped_buckets": "here"}
    (home / "config.yaml").write_text(json.dumps(settings))  # YAML has JSON in it
    command = [
        sys.executable,
        "-m",
        "stoker.cli.main",
        "up",
        "--foreground",
        "--port=0",
        "--no-auth",
        f"--fake={NODES}",
    ]
    with open(home / "server.log", "wb") as log:
        process = subprocess.Popen(
            [*command, *flags],
            env={**{k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}, "STOKER_HOME": str(home)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield home, process
    finally:
        _end(home, process)


def _wait(home: Path, process: subprocess.Popen[bytes]) -> Found:
    """The server, when it listens."""
    config, end = read_config({"STOKER_HOME": str(home)}), time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if found := find(config):
            return found
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise NoServer(f"the server did not start:\n{(home / 'server.log').read_text(errors='replace')[-2000:]}")


def _end(home: Path, process: subprocess.Popen[bytes]) -> None:
    """Cancel what lives, see it end, then end the server."""
    found = find(read_config({"STOKER_HOME": str(home)}))
    if found:
        client = Client(found.url, found.token, seconds=5.0)
        with suppress(StokerError):
            for job in client.live_jobs():
                client.cancel(job["project"], job["name"])
            end = time.monotonic() + _END_SECONDS
            while client.live_jobs() and time.monotonic() < end:
                time.sleep(0.02)
        client.close()
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
