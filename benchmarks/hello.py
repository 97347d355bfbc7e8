"""A bare FastAPI server, the floor under ours: `python -m benchmarks.hello` prints its port and serves until it is killed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

app = FastAPI()


@app.get("/")
def hello() -> Any:
    """The smallest answer."""
    return {"hello": "world"}


@app.post("/{path:path}")
async def echo(path: str, request: Request) -> Any:
    """Read JSON, answer JSON, keep nothing."""
    return {"path": path, "body": await request.json()}


@contextmanager
def hello_server() -> Iterator[tuple[int, int]]:
    """Its process id and port."""
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.hello"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child.pid, int(child.stdout.readline())
    finally:
        child.kill()
        child.communicate()


if __name__ == "__main__":
    # Named as TCP, asyncio switches Nagle's algorithm off; with the default 0 each answer waits 40 ms for an ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
