"""What Ray's part of a job survives, on machines of their own: cables that are pulled, raylets and heads that are killed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.core.errors import EngineError
from stoker.core.launch import Launch
from stoker.engines.base import Engine
from stoker.engines.ray.engine import RayEngine
from stoker.runtime.zipapp import build
from stoker.scheduling.nodes import STOP_SECONDS
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, LosesNodesContract, a_launch, up
from tests.ray_hosts import HEAD, RayHosts, address_of, why_not

pytest.importorskip("ray")
pytestmark = [pytest.mark.live, pytest.mark.campaign, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PROJECT = "p"
LEASE_SECONDS, GRACE_SECONDS = 6, 3
MARK = "beats of a test"

PROGRAM = """# beats of a test
import os, signal, sys, time
folder, name = sys.argv[1], os.environ["STOKER_REPLICA_ID"].replace("/", "_")
job, _, attempt = name.partition(".")
saved = os.path.join(folder, job + ".saved")
begun_at = int(open(saved).read()) if os.path.exists(saved) else 0
step = begun_at
def save(*_):
    open(saved, "w").write(str(step))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
with open(os.path.join(folder, name + ".beats"), "w", buffering=1) as beats:
    while not os.path.exists(os.path.join(folder, "end")):
        step += 1
        print(time.monotonic(), step, file=beats)
        time.sleep(0.02)
"""
"""It writes when it was alive, by a clock that all machines here share, and its step, which it saves when told to end."""


LEFT = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False)
places = ray.util.placement_group_table().values()
print([row["name"] for row in places if row["state"] != "REMOVED"], ray.util.list_named_actors(all_namespaces=True))
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    """Three nodes. All that the tests here start is at the head's machine, and has Ray's token."""
    with RayHosts(nodes=(2, 3, 4)) as hosts, hosts.at(HEAD), pytest.MonkeyPatch.context() as patch:
        for key, value in hosts.environment().items():
            patch.setenv(key, value)
        yield hosts


class Beat(NamedTuple):
    """One sign of a replica's life."""

    at: float
    step: int


@dataclass
class Site:
    """A server at the head's machine, and the folder that its jobs write into."""

    hosts: RayHosts
    client: Client
    folder: Path

    def begin(self, name: str, **spec: Any) -> int:
        """Start a job of PROGRAM, each replica of which fills a node. Returns the machine of the first, when all run."""
        words = ["python", "-c", PROGRAM, str(self.folder)]
        self.client.run(PROJECT, {"name": name, "command": words, "vcpus": 2, **spec})
        wait_until(lambda: len(self.last_beats(name, 1)) == 1 + spec.get("workers", 0), seconds=60.0)
        return self.places(name)[0]

    def await_another(self, name: str) -> int:
        """Until a job's second attempt runs. Returns the machine of its first replica."""
        wait_until(lambda: self.beats(name, 2), seconds=60.0)
        return self.places(name)[0]

    def end(self, name: str) -> None:
        """Let the job end, and see that it ends well, and was not tried a third time."""
        (self.folder / "end").touch()
        wait_until(lambda: self.client.details(PROJECT, name)["state"] == "SUCCEEDED")
        assert self.causes(name)[1:] == ["COMPLETED"]

    def beats(self, name: str, attempt: int) -> list[Beat]:
        """All beats of an attempt, in the order of time."""
        return sorted(beat for beats in self._beats(name, attempt) for beat in beats)

    def last_beats(self, name: str, attempt: int) -> list[float]:
        """When each replica of an attempt that has begun was last alive."""
        return [beats[-1].at for beats in self._beats(name, attempt) if beats]

    def causes(self, name: str) -> list[str]:
        """Why each attempt of a job has ended; empty: it has not."""
        return [attempt["cause"] for attempt in self.client.details(PROJECT, name)["attempts"]]

    def places(self, name: str) -> list[int]:
        """The machines of a job's newest attempt."""
        replicas = self.client.details(PROJECT, name)["attempts"][-1]["replicas"]
        return [machine_of(replica["node"]) for replica in replicas]

    def up(self) -> set[int]:
        """The machines whose nodes may be given work."""
        return {machine_of(row["name"]) for row in self.client.nodes() if row["state"] == "UP"}

    def check_nothing_is_left(self, *machines: int) -> None:
        """No process of a job there, and in Ray no actor and no gang of places."""
        for machine in machines:
            assert not self.hosts.pids(machine, MARK)
        wait_until(lambda: self.hosts.python(LEFT, self.hosts.address).split() == ["[]", "[]"])

    def _beats(self, name: str, attempt: int) -> list[list[Beat]]:
        files = sorted(self.folder.glob(f"{PROJECT}_{name}.{attempt}_*.beats"))
        rows = [
            [line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            for file in files
        ]
        return [[Beat(float(at), int(step)) for at, step in row] for row in rows]


class BeatServer:
    """As much of Stoker's server as supervisors need to run: one that says yes to all, where they can reach it."""

    def __init__(self, host: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Silence."""

        class Server(ThreadingHTTPServer):
            server_bind = TCPServer.server_bind  # HTTP's asks for the name of the host, and nobody here knows names

        self._server = Server((host, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class TestRayEngineOnMachines(LosesNodesContract):
    """Real nodes that are really cut off. One that is back is another node to Ray, and its name says so."""

    @pytest.fixture
    def engine(self, tmp_path: Path, hosts: RayHosts) -> Iterator[Engine]:
        if not hosts.fit():
            hosts.ensure(2)
        self.hosts, self.home, self.server = hosts, tmp_path, BeatServer(address_of(HEAD))
        self.ray, self.is_forgotten = self.an_engine(self.server.url), False
        yield self.ray
        self.ray.stop(ATTEMPT, force=True)
        self.ray.forget(ATTEMPT)
        self.ray.close()
        self.server.close()
        if self.is_forgotten:
            hosts.kill(self.machine)  # Ray has taken the node for dead, and ends it when it hears of that

    def an_engine(self, server_url: str) -> RayEngine:
        """An engine that has seen the cluster's nodes."""
        token = f"{self.hosts.folder} {self.home}"
        runtime = Path(build(str(self.home / "cache")))
        engine = RayEngine(
            self.home, self.hosts.address, runtime=runtime, server_url=server_url, token=lambda attempt: f"{token} {attempt}",
            lease_seconds=LEASE_SECONDS,
        )  # fmt: skip
        wait_until(lambda: self.hosts.fit() == {machine_of(name) for name in up(engine)})
        self.machine = machine_of(engine.nodes()[0].name)
        return engine

    def endless(self) -> Launch:
        script = f"import time  # {MARK}\nwhile True: time.sleep(1)"
        node = next(node.name for node in self.ray.nodes() if machine_of(node.name) == self.machine)
        return a_launch(sys.executable, "-c", script, node=node, lease_seconds=LEASE_SECONDS)

    def cut_off(self, engine: Engine) -> None:
        self.hosts.pull_cable(self.machine)
        wait_until(lambda: self.machine not in map(machine_of, up(engine)))

    def bring_back(self, engine: Engine) -> None:
        self.hosts.heal_cable(self.machine)
        self.is_forgotten = True

    def let_the_lease_end(self, engine: Engine) -> None:
        wait_until(lambda: not self.runs(engine))

    def runs(self, engine: Engine) -> bool:
        return bool(self.hosts.pids(self.machine, MARK))

    def test_a_server_that_only_its_own_machine_reaches_starts_nothing(self, engine: Engine) -> None:
        with (
            closing(self.an_engine("http://127.0.0.1:9")) as other,
            pytest.raises(EngineError, match="start it with --host"),
        ):
            other.start(other.render(self.endless()))


@pytest.mark.parametrize("token", ["x" * 32, ""])
def test_who_has_not_the_clusters_token_is_told_so(hosts: RayHosts, token: str) -> None:
    told = hosts.ask_driver({"RAY_AUTH_TOKEN": token})
    assert told["event"] == "refused" and "does not take our token" in told["why"]


def test_a_server_on_a_machine_without_ray_is_told_so(hosts: RayHosts) -> None:
    told = hosts.ask_driver(at=5)
    assert told["event"] == "refused" and "no part of the Ray cluster" in told["why"]


def machine_of(node: str) -> int:
    """The number of a node's machine."""
    return int(node.partition("-")[0].rpartition(".")[2])


@pytest.fixture(scope="module")
def client(hosts: RayHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server, the same for all tests: it survives what they do."""
    home = tmp_path_factory.mktemp("home")
    settings: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "grace_seconds": GRACE_SECONDS}
    settings |= {"engine": "ray", "address": hosts.address, "job_folders": [str(home.parent)]}
    (home / "config.yaml").write_text(json.dumps(settings))
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, ("--port=0", f"--host={address_of(HEAD)}"))
    client = Client(found.url, found.token)
    try:
        yield client
    finally:
        client.close()
        embedded.stop(config, embedded.find(config) or found)


@pytest.fixture
def site(hosts: RayHosts, client: Client, tmp_path: Path) -> Iterator[Site]:
    yield Site(hosts, client, tmp_path)
    for job in client.live_jobs():
        client.cancel(job["project"], job["name"])
    wait_until(lambda: not client.live_jobs())


def test_a_spot_machine_that_is_told_to_go_is_left_with_a_checkpoint(site: Site) -> None:
    site.hosts.ensure(2, 3, 4)
    wait_until(lambda: {2, 3, 4} <= site.up())
    first = site.begin("spot")
    site.hosts.drain(first, seconds=GRACE_SECONDS + STOP_SECONDS + 1)
    second = site.await_another("spot")
    assert second != first
    assert site.causes("spot") == ["DRAINED", ""]
    saved = site.beats("spot", 1)[-1].step
    assert site.beats("spot", 2)[0].step == saved + 1, "it goes on from its checkpoint"
    site.end("spot")
    wait_until(lambda: not site.hosts.has_ray(first))  # Ray ends a node that it drains once it is empty
    site.check_nothing_is_left(1)


def test_who_is_cut_off_ends_itself_before_another_attempt_begins(site: Site) -> None:
    hosts = site.hosts
    hosts.ensure(2, 3, 4)
    wait_until(lambda: {2, 3, 4} <= site.up())
    cut = site.begin("gang", workers=1)
    hosts.pull_cable(cut)
    site.await_another("gang")
    began_at = site.beats("gang", 2)[0].at
    before = site.beats("gang", 1)
    assert before[-1].at < began_at, "at no moment two attempts"
    assert cut not in site.places("gang")
    hosts.heal_cable(cut)
    assert site.beats("gang", 1) == before, "nothing of the old attempt comes back"
    assert site.causes("gang") == ["NODE_LOST", ""]
    site.end("gang")
    site.check_nothing_is_left(cut)
    hosts.kill(cut)  # Ray has taken the node for dead, and ends it when it hears of that


def test_a_job_whose_raylet_is_killed_goes_on_elsewhere_once(site: Site) -> None:
    site.hosts.ensure(2, 3)
    wait_until(lambda: {2, 3} <= site.up())
    first = site.begin("solo")
    site.hosts.kill_raylet(first)
    second = site.await_another("solo")
    assert second != first
    assert site.beats("solo", 1)[-1].at < site.beats("solo", 2)[0].at
    assert site.causes("solo") == ["NODE_LOST", ""]
    site.end("solo")
    site.check_nothing_is_left(first)


def test_when_the_head_is_started_anew_jobs_end_and_go_on_once_there_are_nodes(site: Site) -> None:
    """Ray's nodes may not notice, and run on of no cluster: replicas notice."""
    hosts = site.hosts
    hosts.ensure(2)
    wait_until(lambda: 2 in site.up())
    site.begin("head")
    hosts.kill(HEAD)
    hosts.start_head()
    wait_until(lambda: site.causes("head") == ["NODE_LOST"], seconds=60.0)
    wait_until(lambda: not hosts.pids(2, MARK))
    before = site.beats("head", 1)
    hosts.kill(2)
    hosts.ensure(2)
    site.await_another("head")
    assert site.beats("head", 1) == before
    assert site.beats("head", 1)[-1].at < site.beats("head", 2)[0].at
    site.end("head")
    site.check_nothing_is_left(2)
