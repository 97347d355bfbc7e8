"""A site whose GPUs and jobs are made up, and the same each time: for pictures, and for trying a screen without a GPU."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker, build
from stoker.client.client import Client
from stoker.clock import ManualClock
from stoker.config import read_config
from stoker.core.changes import MoveAttempt
from stoker.core.states import AttemptState
from stoker.gpu.device import Device
from stoker.gpu.drivers.fake import FakeDriver
from stoker.gpu.reading import Reading
from stoker.sampling.sample import Sample

NOW = 1_795_190_400.0
URL = "http://127.0.0.1:7077"
H100, T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"
SIX = (H100,) * 4 + (T4,) * 2
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a GPU does: how busy it is in the middle, by how much that goes up and down, and in how many seconds."""

    busy: float = 0.0
    swing: float = 0.0
    period: float = 60.0
    memory: float = 0.02  # of what it has


CARDS: Sequence[Card] = (
    Card(busy=96, swing=3, memory=0.86),
    Card(busy=94, swing=5, memory=0.86),
    Card(busy=45, swing=40, period=90, memory=0.41),
    Card(),
    Card(busy=70, swing=25, period=30, memory=0.62),
    Card(),
)
"""What the GPUs do, one after the other, and again from the first."""


class InProcess(httpx.BaseTransport):
    """Asks an application of this process, without a socket. Not from a thread in which an event loop runs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "scheme": "http",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7077),
        }
        asked: list[Message] = [{"type": "http.request", "body": request.read(), "more_body": False}]
        told: list[Message] = []

        async def receive() -> Message:
            return asked.pop() if asked else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            told.append(message)

        asyncio.run(self._app(scope, receive, send))
        head = next(message for message in told if message["type"] == "http.response.start")
        body = b"".join(message.get("body", b"") for message in told if message["type"] == "http.response.body")
        return httpx.Response(head["status"], headers=head["headers"], content=body)


class ScriptedSite:
    """A whole Stoker, nothing of it running, with jobs that hold GPUs."""

    def __init__(
        self, home: Path, products: Sequence[str] = SIX, jobs: Sequence[tuple[str, str, int]] = (), fake: str = ""
    ) -> None:
        """`jobs`: of each its name, the type of its GPUs and how many. Ada asks for them, who is an admin. `fake`: more nodes."""
        self.clock = ManualClock(NOW - 600)
        self.products = products
        config = read_config({}, flags={"home": str(home), "sample_seconds": 1.0, "isolation": "0", "fake": fake})
        self.stoker: Stoker = build(config, url=URL, clock=self.clock, driver=FakeDriver(*products))
        self.stoker.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody starts anything
        self.stoker.loop.tick()
        app = make_app(self.stoker.services, self.stoker.tokens, allowed_hosts("127.0.0.1", 7077))
        self._transport = InProcess(app)
        self.client = self.client_of("ada", is_admin=True)
        for name, gpu, count in jobs:
            self.client.run("local", {"name": name, "command": ["python", "train.py"], "gpus": count, "gpu_type": gpu})
            self.clock.advance(1)
        self.stoker.loop.tick()

    def run(self, job: str, *, steps_per_second: float, data_wait: float = 0.0, step: int = 1000) -> None:
        """A job that has its place is running, and tells of its steps over the last five minutes."""
        attempt = self.stoker.store.job(f"local/{job}").attempt
        assert attempt is not None, f"{job} has no place"
        now = self.clock.now()
        for before, after in (
            (AttemptState.PLACED, AttemptState.STARTING),
            (AttemptState.STARTING, AttemptState.RUNNING),
        ):
            self.stoker.store.commit([MoveAttempt(attempt=attempt.id, before=before, after=after, at=now)], by="loop")
        a_window = round(10 * steps_per_second)
        lines = [
            {
                "n": n + 1,
                "t": NOW - 300 + 10 * n,
                "s": "steps",
                "m": json.dumps(_window(n, step, a_window, data_wait)),
            }
            for n in range(30)
        ]
        self.stoker.services.logs.append(attempt.id, "chief-0", lines)

    def sample(self, seconds: int = 300) -> None:
        """Sample for so long; then it is NOW."""
        nodes = [node for node in self.stoker.store.world().nodes.values() if not node.virtual]
        for second in range(seconds, -1, -1):
            self.clock.time = NOW - second
            self.stoker.services.monitor.hear(nodes, sample_of(self.products, NOW - second))

    def client_of(self, user: str, *, is_admin: bool = False, projects: Sequence[str] = ()) -> Client:
        """A client with a token of this user's."""
        token, _ = self.stoker.services.tokens.create(user, is_admin=is_admin, projects=tuple(projects))
        return Client(URL, token, transport=self._transport)

    def close(self) -> None:
        """Let go of it."""
        self.client.close()
        self.stoker.store.close()


def sample_of(products: Sequence[str], at: float) -> Sample:
    """What the machine and its GPUs show at a moment."""
    processors = 38 + 22 * math.sin(at / 40) + 6 * math.sin(at / 7)
    return Sample(
        at=at,
        host={
            "cpu_percent": processors,
            "load": 12.4,
            "host_memory_used_bytes": 212.0 * _GIB,
            "host_memory_total_bytes": 512.0 * _GIB,
            "disk_read_bytes": 180e6 * (at - NOW + 1e6),
            "disk_written_bytes": 12e6 * (at - NOW + 1e6),
            "network_sent_bytes": 3.1e6 * (at - NOW + 1e6),
            "network_received_bytes": 94e6 * (at - NOW + 1e6),
        },
        gpus=[
            Reading(
                device=Device(
                    index=n, uuid=f"GPU-fake-{n}", product=product, memory_bytes=(80 if product == H100 else 16) * _GIB
                ),
                values=_values(CARDS[n % len(CARDS)], product, at + 17 * n),
            )
            for n, product in enumerate(products)
        ],
    )


def _values(card: Card, product: str, at: float) -> Mapping[str, float]:
    is_new = product == H100
    busy = max(0.0, min(100.0, card.busy + card.swing * math.sin(2 * math.pi * at / card.period)))
    memory, most_watts, idle_watts = (80 * _GIB, 700.0, 70.0) if is_new else (16 * _GIB, 70.0, 12.0)
    return {
        "utilization_percent": round(busy),
        "memory_used_bytes": card.memory * memory,
        "memory_total_bytes": float(memory),
        "power_watts": idle_watts + 0.8 * (most_watts - idle_watts) * busy / 100,
        "power_limit_watts": most_watts,
        "temperature_celsius": 34 + 0.3 * busy,
        "slowdown_celsius": 90.0,
        **({"sm_active_ratio": 0.78 * busy / 100, "tensor_active_ratio": 0.4 * busy / 100} if is_new else {}),
    }


def _window(n: int, step: int, steps: int, data_wait: float) -> Mapping[str, Any]:
    """What a program tells of ten seconds of its steps."""
    return {
        "t": NOW - 300 + 10 * n,
        "step": step + steps * (n + 1),
        "steps": steps,
        "seconds": 10.0,
        "longest": 20.0 / steps,
        "examples": 64 * steps,
        "waited": 10.0 * data_wait,
        "values": {
            "loss": 0.35 + 1.9 * math.exp(-n / 9) + 0.02 * math.sin(2.3 * n),
            "accuracy": 0.93 - 0.6 * math.exp(-n / 8),
        },
    }
