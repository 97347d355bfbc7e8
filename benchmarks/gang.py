"""Gangs of 50, 100 and 200 on declared nodes of one machine: from submit until all replicas run, and what that costs the server.

Meanwhile somebody asks for the server's status all the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from stoker.client.client import Client

from .measure import Row, cpu_seconds, percentile
from .server import PROJECT, Server, wait_until

RUNS = 2
SIZES = (50, 100, 200)
_GANG_SECONDS = 300.0
_PAUSE_SECONDS = 0.05


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    for size in SIZES:
        until_running: list[float] = []
        until_gone: list[float] = []
        cpu: list[float] = []
        waits: list[float] = []
        for _ in range(runs):
            with Server("--fake", f"{size}xn1-highmem-2") as server, Asking(server) as asking:
                before, begin = cpu_seconds(server.found.pid), time.perf_counter()
                body = {"name": "gang", "command": ["sleep", "600"], "workers": size - 1}
                server.client.run(PROJECT, body)
                _wait_for(server, "RUNNING")
                until_running.append(time.perf_counter() - begin)
                cpu.append(cpu_seconds(server.found.pid) - before)
                begin = time.perf_counter()
                server.client.cancel(PROJECT, "gang")
                _wait_for(server, "CANCELLED")
                until_gone.append(time.perf_counter() - begin)
            waits += [1000 * seconds for seconds in asking.waits]
        yield Row(what=f"a gang of {size}, until all of it runs", samples=until_running)
        yield Row(what="  the server's CPU meanwhile", samples=cpu)
        yield Row(what="  from its cancellation until all of it is gone", samples=until_gone)
        yield Row(what=f"  /status meanwhile, median of {len(waits):,}", unit="ms", samples=[percentile(waits, 50)])
        yield Row(what="  p99, and the slowest", unit="ms", samples=[percentile(waits, 99), max(waits)])


class Asking:
    """`with Asking(server) as asking:` somebody who asks for the status twenty times a second; `waits` in seconds."""

    def __init__(self, server: Server) -> None:
        self.waits: list[float] = []
        self._client = Client(server.found.url, server.found.token)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._client.close()

    def _ask(self) -> None:
        while not self._end.wait(_PAUSE_SECONDS):
            begin = time.perf_counter()
            self._client.status()
            self.waits.append(time.perf_counter() - begin)


def _wait_for(server: Server, state: str) -> None:
    def is_there() -> bool:
        return bool(server.client.details(PROJECT, "gang")["state"] == state)

    wait_until(is_there, f"the gang to be {state}", _GANG_SECONDS, 0.25)
