"""Everybody around a busy server, in one process: replicas that print, people who ask, people who follow. Raw HTTP on asyncio.

`python -m benchmarks.crowd_people PORT TOKEN FOLDER RUNNING POLLERS STREAMS SECONDS BEATS` prints what was seen. FOLDER is the
server's `runs/bench`: a replica's folder there, with its lock held here and its status UP, is for the engine a replica that runs.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

PROJECT = "bench"
LINE_SECONDS = 10.0
"""How often a replica prints a line."""

BEAT_SECONDS = 10.0
"""How often a replica on another machine renews its lease, which is of 30 s."""

_POLL_SECONDS = 1.0
_ROUTES = {
    "list of 20": f"/stoker/v1/projects/{PROJECT}/jobs",
    "one job in full": f"/stoker/v1/projects/{PROJECT}/jobs/{{}}",
    "v1 jobs.get": f"/v1/projects/{PROJECT}/jobs/{{}}",
    "v1 jobs.list of 100": f"/v1/projects/{PROJECT}/jobs?pageSize=100",
    "nodes": "/stoker/v1/nodes",
}


class Crowd:
    """What all of them see."""

    def __init__(self, port: int, token: str, running: int, until: float) -> None:
        self.port, self.token, self.running, self.until = port, token, running, until
        self.latencies: dict[str, list[tuple[float, float]]] = {}  # what → when, and how many seconds
        self.errors: list[str] = []
        self.draw = random.Random(1)

    async def replica(self, number: int) -> None:
        """Print a line now and then, over one connection."""
        attempt = f"{PROJECT}/run_{number}.1"
        path = f"/stoker/replica/v1/{attempt}/chief-0/lines"
        await asyncio.sleep(self.draw.uniform(0, LINE_SECONDS))
        async with _Connection(self.port, self.token_of(attempt)) as connection:
            for n in range(1, 1 << 30):
                line = {"n": n, "t": time.time(), "s": "out", "m": f"epoch {n} loss {1 / n:.6f} " + "x" * 60}
                await self.ask("a replica's line", connection, "POST", path, {"lines": [line]})
                if not await self.rest(LINE_SECONDS):
                    return

    async def beater(self, number: int) -> None:
        """Renew a replica's lease, over one connection."""
        attempt = f"{PROJECT}/run_{number}.1"
        await asyncio.sleep(self.draw.uniform(0, BEAT_SECONDS))
        async with _Connection(self.port, self.token_of(attempt)) as connection:
            path = f"/stoker/replica/v1/{attempt}/chief-0/beat"
            while True:
                await self.ask("a replica's beat", connection, "POST", path)
                if not await self.rest(BEAT_SECONDS):
                    return

    async def poller(self) -> None:
        """Ask for something once a second."""
        await asyncio.sleep(self.draw.uniform(0, _POLL_SECONDS))
        async with _Connection(self.port, self.token) as connection:
            while True:
                what = self.draw.choice(list(_ROUTES))
                path = _ROUTES[what].format(f"run_{self.draw.randrange(self.running)}")
                took = await self.ask(what, connection, "GET", path)
                if not await self.rest(max(0.0, _POLL_SECONDS - took)):
                    return

    async def follower(self, number: int) -> None:
        """Follow a job. How late a line comes is the latency."""
        path = f"/stoker/v1/projects/{PROJECT}/jobs/run_{number}/stream"
        async with _Connection(self.port, self.token) as connection:
            try:
                async with asyncio.timeout(max(0.1, self.until - time.monotonic())):
                    async for event in connection.events(path):
                        if event["kind"] == "log":
                            self.note("a line until it is streamed", time.time() - event["time"])
                self.errors.append("a stream ended")
            except TimeoutError:
                return
            except (OSError, EOFError, ValueError) as error:
                self.errors.append(f"stream: {error!r}")

    async def ask(self, what: str, connection: _Connection, method: str, path: str, body: object = None) -> float:
        """One request. Returns the seconds it took."""
        begin = time.perf_counter()
        try:
            status, text = await connection.ask(method, path, body)
            if status != 200:
                self.errors.append(f"{what}: {status} {text[:200]!r}")
        except (OSError, EOFError) as error:
            self.errors.append(f"{what}: {error!r}")
        took = time.perf_counter() - begin
        self.note(what, took)
        return took

    def token_of(self, attempt: str) -> str:
        """What the replicas of an attempt show the server."""
        return hmac.new(self.token.encode(), f"attempt {attempt}".encode(), hashlib.sha256).hexdigest()

    def note(self, what: str, seconds: float) -> None:
        """Keep a latency."""
        self.latencies.setdefault(what, []).append((time.time(), seconds))

    async def rest(self, seconds: float) -> bool:
        """Wait. Returns whether there is time left."""
        await asyncio.sleep(seconds)
        return time.monotonic() < self.until


class _Connection:
    """One connection, kept open."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"

    async def __aenter__(self) -> _Connection:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def open(self) -> None:
        """A new one."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        try:
            return await self._exchange(method, path, body)
        except (OSError, EOFError):  # one that rested may have been closed: then once more on a new one
            await self.open()
            return await self._exchange(method, path, body)

    async def _exchange(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        data = b"" if body is None else json.dumps(body).encode()
        more = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{more}\r\n".encode() + data)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head.split(b" ", 2)[1]), await self._reader.readexactly(length)

    async def events(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The events of a stream: its lines are within chunks, whose own lines are no JSON."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise ValueError(head.partition(b"\r\n")[0].decode())
        while line := await self._reader.readline():
            if line.startswith(b"{"):
                yield json.loads(line)


def hold_replicas(folder: Path, running: int) -> list[int]:
    """The folders of so many replicas that run; the locks are held as long as this process lives."""
    locks = []
    for number in range(running):
        replica = folder / f"run_{number}.1" / "chief-0"
        replica.mkdir(parents=True, exist_ok=True)
        (replica / "pid").write_text("0")  # nobody to be signalled
        (replica / "status.json").write_text(json.dumps({"seen": "UP", "at": time.time(), "last_line": 0}))
        lock = os.open(replica / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        locks.append(lock)
    return locks


async def _all(crowd: Crowd, pollers: int, streams: int, beats: int) -> None:
    await asyncio.gather(
        *(crowd.replica(number) for number in range(crowd.running)),
        *(crowd.beater(number) for number in range(beats)),
        *(crowd.poller() for _ in range(pollers)),
        *(crowd.follower(number) for number in range(streams)),
    )


def main(words: list[str]) -> None:
    """Hold the replicas, say so, wait for a line that says go; then everybody does what they do, for so long."""
    token, folder = words[1], Path(words[2])
    port, running, pollers, streams = int(words[0]), *map(int, words[3:6])
    locks = hold_replicas(folder, running)
    print("held", flush=True)
    port = int(sys.stdin.readline() or port)
    crowd = Crowd(port, token, running, time.monotonic() + float(words[6]))
    asyncio.run(_all(crowd, pollers, streams, int(words[7])))
    print(json.dumps({"latencies": crowd.latencies, "errors": crowd.errors[:20], "error_count": len(crowd.errors)}))
    sys.stdout.flush()
    sys.stdin.readline()  # the replicas run until the server has ended
    del locks


if __name__ == "__main__":
    main(sys.argv[1:])
