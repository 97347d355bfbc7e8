"""What Ray's part of a job survives, on machines of their own: cables that are pulled, raylets and heads that are killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config
from stoker.engines.ray.health import HEALTH
from tests.conftest import wait_until
from tests.ray_hosts import HEAD, RayHosts, address_of, why_not

pytest.importorskip("ray")
pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PROJECT = "p"
LEASE_SECONDS = 6
HEALTH_HERE = HEALTH
"""Other tests keep the same processors busy."""

PROGRAM = """
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


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    with RayHosts(HEALTH_HERE) as hosts:
        yield hosts


@dataclass
class Site:
    """A server at the head's machine, and the folder that its jobs write into."""

    hosts: RayHosts
    config: Config
    client: Client
    folder: Path

    def run(self, name: str, **spec: Any) -> None:
        """Start a job of PROGRAM, each replica of which fills a node."""
        words = ["python", "-c", PROGRAM, str(self.folder)]
        self.client.run(PROJECT, {"name": name, "command": words, "vcpus": 2, **spec})

    def beats(self, name: str, attempt: int) -> list[tuple[float, int]]:
        """All beats of the replicas of an attempt, in the order of time: (when, step)."""
        found = []
        for path in self.folder.glob(f"{PROJECT}_{name}.{attempt}_*.beats"):
            for line in path.read_text().splitlines():
                when, _, step = line.partition(" ")
                if step:
                    found.append((float(when), int(step)))
        return sorted(found)

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """A job's attempts."""
        found: list[dict[str, Any]] = self.client.details(PROJECT, name)["attempts"]
        return found

    def places(self, name: str) -> list[int]:
        """The machines of a job's newest attempt."""
        return [int(r["node"].partition("-")[0].rpartition(".")[2]) for r in self.attempts(name)[-1]["replicas"]]

    def up(self) -> set[int]:
        """The machines whose nodes may be given work."""
        rows = self.client.nodes()
        return {int(r["name"].partition("-")[0].rpartition(".")[2]) for r in rows if r["state"] == "UP"}

    def end(self, name: str) -> None:
        """Let the job end, and see that it ends well."""
        (self.folder / "end").touch()
        wait_until(lambda: self.client.details(PROJECT, name)["state"] == "SUCCEEDED")


@pytest.fixture
def site(hosts: RayHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for key, value in hosts.environment().items():
        monkeypatch.setenv(key, value)
    home = tmp_path / "home"
    home.mkdir()
    settings = {"engine": "ray", "address": hosts.address, "lease_seconds": LEASE_SECONDS, "grace_seconds": 3}
    (home / "config.yaml").write_text(json.dumps(settings))
    config = read_config({"STOKER_HOME": str(home)})
    with hosts.at(HEAD):
        found = embedded.start(config, ("--port=0", f"--host={address_of(HEAD)}"))
        client = Client(found.url, found.token)
        try:
            yield Site(hosts, config, client, tmp_path)
            for job in client.live_jobs():
                client.cancel(job["project"], job["name"])
            wait_until(lambda: not client.live_jobs())
        finally:
            client.close()
            embedded.stop(config, embedded.find(config) or found)


def test_a_cable_is_pulled(site: Site) -> None:
    hosts = site.hosts
    hosts.ensure(2, 3, 4)
    wait_until(lambda: site.up() == {2, 3, 4})
    t = time.monotonic()
    site.run("gang", workers=1)
    wait_until(lambda: len(list(site.folder.glob("*.beats"))) == 2)
    print("run", time.monotonic() - t)
    cut, kept = site.places("gang")
    t = time.monotonic()
    hosts.pull_cable(cut)
    wait_until(lambda: cut not in site.up())
    print("noticed", time.monotonic() - t)
    wait_until(lambda: len(site.beats("gang", 2)) > 2)
    first, second = site.beats("gang", 1), site.beats("gang", 2)
    print("ended", first[-1][0] - t, "elsewhere", second[0][0] - t)
    assert first[-1][0] < second[0][0]
    assert cut not in site.places("gang")
    hosts.heal_cable(cut)
    wait_until(lambda: not hosts.has_ray(cut))
    print("healed, raylet ended", time.monotonic() - t)
    assert not hosts.pids(cut, PROGRAM[:20])
    assert site.beats("gang", 1) == first
    assert [a["cause"] for a in site.attempts("gang")][:1] == ["NODE_LOST"]
    site.end("gang")
    assert len(site.attempts("gang")) == 2


def test_a_raylet_is_killed(site: Site) -> None:
    hosts = site.hosts
    hosts.ensure(2, 3)
    wait_until(lambda: {2, 3} <= site.up())
    site.run("solo")
    wait_until(lambda: site.beats("solo", 1))
    (first,) = site.places("solo")
    t = time.monotonic()
    hosts.kill_raylet(first)
    wait_until(lambda: first not in site.up())
    print("noticed", time.monotonic() - t)
    wait_until(lambda: len(site.beats("solo", 2)) > 2)
    print("ended", site.beats("solo", 1)[-1][0] - t, "elsewhere", site.beats("solo", 2)[0][0] - t)
    assert site.beats("solo", 1)[-1][0] < site.beats("solo", 2)[0][0]
    print([open(f"/proc/{p}/cmdline").read() for p in hosts.pids(first)])
    site.end("solo")
    assert len(site.attempts("solo")) == 2


def test_the_head_is_killed_and_started_again(site: Site) -> None:
    hosts = site.hosts
    hosts.ensure(2, 3)
    wait_until(lambda: {2, 3} <= site.up())
    site.run("solo")
    wait_until(lambda: site.beats("solo", 1))
    (first,) = site.places("solo")
    t = time.monotonic()
    hosts.kill(HEAD)
    wait_until(lambda: not site.up())
    print("noticed", time.monotonic() - t)
    hosts.start_head()
    print("head is back", time.monotonic() - t)
    wait_until(lambda: not hosts.has_ray(2) and not hosts.has_ray(3), seconds=90)
    print("raylets ended", time.monotonic() - t, "last beat", site.beats("solo", 1)[-1][0] - t)
    hosts.ensure(2, 3)
    print("nodes are back", time.monotonic() - t)
    wait_until(lambda: {2, 3} <= site.up())
    print("nodes are up", time.monotonic() - t)
    wait_until(lambda: len(site.beats("solo", 2)) > 2, seconds=60)
    print("ended", site.beats("solo", 1)[-1][0] - t, "elsewhere", site.beats("solo", 2)[0][0] - t)
    site.end("solo")
    assert len(site.attempts("solo")) == 2
