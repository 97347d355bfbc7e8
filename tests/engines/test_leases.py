"""Leases for real: supervisors whose server and witness come and go."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Seen
from stoker.engines.local.engine import LocalEngine
from stoker.runtime.exits import LEASE_OVER
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, a_launch, look, until
from tests.contract.test_engines import a_local_engine

LEASE_SECONDS = 1.6
ABORTED = {"error": {"code": 409, "status": "ABORTED", "message": "attempt p/j.1 has ended"}}


class World:
    """A server that answers as the test wants, a witness, and a replica between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says: tuple[int, dict[str, Any]] = (200, {})
        self.beats = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                is_beat = self.path.endswith("/beat")
                outer.beats += is_beat
                status, body = outer.says if is_beat else (200, {})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Silence."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.witness = socket.create_server(("127.0.0.1", 0))
        self.engine: LocalEngine = a_local_engine(folder)
        self.point_to(self.server.server_address[1])
        self.ticks = folder / "ticks"

    def point_to(self, port: int) -> None:
        """Where the server is now. Nobody listens on port 9."""
        (self.folder / "cache" / "server-url").write_text(f"http://127.0.0.1:{port}")

    def server_goes_away(self) -> None:
        """It answers nobody any more, on connections that are kept neither."""
        self.point_to(9)
        self.says = (503, {})

    def start(self, grace_seconds: float = 5.0) -> None:
        """A program that ignores every request to end and writes down that it lives."""
        script = (
            "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"
            "while True:\n    open(sys.argv[1], 'a').write('x')\n    time.sleep(0.02)"
        )
        launch = a_launch(sys.executable, "-c", script, str(self.ticks), grace_seconds=grace_seconds)
        request = self.engine.render(launch)
        address = f"127.0.0.1:{self.witness.getsockname()[1]}"
        lease = {"seconds": LEASE_SECONDS, "witnesses": [address]}
        words = {name: {**found, "lease": lease} for name, found in request.replicas.items()}
        self.engine.start(replace(request, replicas=words))

    def lives(self) -> bool:
        """Whether the program writes on."""
        before = self.count()
        until = time.monotonic() + 0.3
        wait_until(lambda: self.count() > before or time.monotonic() > until)
        return self.count() > before

    def count(self) -> int:
        return self.ticks.stat().st_size if self.ticks.exists() else 0

    def ends(self) -> Seen:
        """What is seen of the replica when it has ended; its program has, too."""
        seen = until(self.engine, *FINAL_REPLICA_STATES)
        assert not self.lives()
        return seen

    @property
    def supervisor(self) -> int:
        return int((self.folder / "runs" / ATTEMPT / "chief-0" / "pid").read_text())

    def close(self) -> None:
        self.engine.stop(ATTEMPT, force=True)
        self.server.shutdown()
        self.server.server_close()
        self.witness.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def passes(seconds: float) -> None:
    """So much time goes by."""
    over = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= over)


def test_who_loses_the_server_alone_runs_on_and_who_loses_the_witness_too_ends(world: World) -> None:
    world.start()
    wait_until(world.count)
    world.server_goes_away()
    passes(2 * LEASE_SECONDS)
    assert world.lives() and look(world.engine).state is ReplicaState.UP
    world.witness.close()
    began = time.monotonic()
    seen = world.ends()
    assert (seen.state, seen.sign) == (ReplicaState.LOST, LEASE_OVER)
    assert "it reached neither the server nor 127.0.0.1:" in seen.message
    assert time.monotonic() - began < 15.0, "the program asked for no more time than its lease gives it"


def test_who_was_stopped_for_longer_than_its_lease_ends_when_it_wakes(world: World) -> None:
    world.start()
    wait_until(world.count)
    os.kill(world.supervisor, signal.SIGSTOP)
    passes(1.5 * LEASE_SECONDS)
    beats = world.beats
    os.kill(world.supervisor, signal.SIGCONT)
    seen = world.ends()
    assert (seen.state, seen.sign) == (ReplicaState.LOST, LEASE_OVER)
    assert world.beats <= beats, "it asks nobody whether it may go on"


def test_whose_attempt_is_over_ends_without_any_grace(world: World) -> None:
    world.start(grace_seconds=600.0)
    wait_until(world.count)
    world.says = (409, ABORTED)
    assert world.ends().message == "the server says that its attempt is over"


def test_who_is_not_reached_by_its_engine_is_told_to_stop_by_the_server(world: World) -> None:
    world.start(grace_seconds=0.1)
    wait_until(world.count)
    world.says = (200, {"stop": True})
    assert (world.ends().state, look(world.engine).exit_code) == (ReplicaState.FAILED, 143)


def test_who_was_never_granted_a_lease_by_the_server_runs_nothing(world: World) -> None:
    """Its start may have come late: the attempt may be over, and the job run elsewhere."""
    world.server_goes_away()
    world.start()
    passes(LEASE_SECONDS)
    assert world.count() == 0
    world.says = (409, ABORTED)
    world.point_to(world.server.server_address[1])
    assert until(world.engine, *FINAL_REPLICA_STATES).state is ReplicaState.LOST
    assert world.count() == 0
