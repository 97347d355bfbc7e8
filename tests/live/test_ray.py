"""Jobs on a real Ray cluster, through a real server: across nodes, over a restart of the server, and when a node goes away."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.app import build
from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config
from stoker.core.errors import Unavailable
from tests.conftest import wait_until
from tests.ray_cluster import RayCluster

pytest.importorskip("ray")
pytestmark = pytest.mark.live

PROJECT = "p"
PROGRAM = """
import os, socket, sys, time
folder, name = sys.argv[1], os.environ["STOKER_REPLICA_ID"].replace("/", "_")
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_ADDR"], flush=True)
open(os.path.join(folder, name), "x").close()
while not os.path.exists(os.path.join(folder, "end")):
    time.sleep(0.02)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        cluster.add(1, cpus=2)
        cluster.add(2, cpus=2)
        yield cluster


@pytest.fixture
def config(tmp_path: Path, cluster: RayCluster) -> Iterator[Config]:
    home = tmp_path / "home"
    home.mkdir()
    settings = {"engine": "ray", "address": cluster.address, "lease_seconds": 6, "job_folders": [str(tmp_path)]}
    (home / "config.yaml").write_text(json.dumps(settings))
    config = read_config({"STOKER_HOME": str(home)})
    yield config
    found = embedded.find(config)
    if found is not None:
        client = Client(found.url, found.token)
        for job in client.live_jobs():
            client.cancel(job["project"], job["name"])
        wait_until(lambda: not client.live_jobs())
        client.close()
        embedded.stop(config, found)


@contextmanager
def served(config: Config) -> Iterator[Client]:
    """A server that has seen the cluster's nodes, and is killed at the end."""
    found = embedded.start(config, ("--port=0",))
    client = Client(found.url, found.token)
    try:
        wait_until(client.nodes)
        yield client
    finally:
        client.close()


def states(client: Client, name: str) -> tuple[str, list[str]]:
    """A job's state, and where its replicas of the newest attempt are."""
    details = client.details(PROJECT, name)
    attempts = details["attempts"]
    return details["state"], [replica["node"] for replica in attempts[-1]["replicas"]] if attempts else []


def test_a_gang_across_nodes_goes_on_while_the_server_is_killed_and_started_again(
    config: Config, tmp_path: Path
) -> None:
    command = ["python", "-c", PROGRAM, str(tmp_path)]
    with served(config) as client:
        client.run(PROJECT, {"name": "gang", "command": command, "workers": 1, "vcpus": 2})
        wait_until(lambda: len(list(tmp_path.glob("p_gang.1_*"))) == 2)
        wait_until(lambda: states(client, "gang")[0] == "RUNNING")
        assert len({*states(client, "gang")[1]}) == 2, "a replica on each node"
        found = embedded.find(config)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
    wait_until(lambda: embedded.find(config) is None)
    with served(config) as client:
        (tmp_path / "end").touch()
        wait_until(lambda: states(client, "gang")[0] == "SUCCEEDED")
        assert len(client.details(PROJECT, "gang")["attempts"]) == 1
        lines = sorted(e["text"] for e in client.stream(PROJECT, "gang", follow=False) if e["kind"] == "log")
        assert lines[:2] == ["done", "done"]
        assert [line.partition(" at ")[0] for line in lines[2:]] == ["rank 0 of 2", "rank 1 of 2"]


@pytest.mark.campaign
def test_when_a_node_goes_away_its_job_goes_on_elsewhere_once(
    config: Config, cluster: RayCluster, tmp_path: Path
) -> None:
    with served(config) as client:
        wait_until(lambda: len(client.nodes()) == 2)
        client.run(PROJECT, {"name": "solo", "command": ["python", "-c", PROGRAM, str(tmp_path)], "vcpus": 2})
        wait_until(lambda: list(tmp_path.glob("p_solo.1_*")))
        _, (first,) = states(client, "solo")
        cluster.kill(first.rpartition("-")[0])
        wait_until(lambda: list(tmp_path.glob("p_solo.2_*")), seconds=60.0)
        _, (second,) = states(client, "solo")
        assert second != first
        assert client.details(PROJECT, "solo")["attempts"][0]["cause"] == "NODE_LOST"
        assert [node["name"] for node in client.nodes()] == [second]
        (tmp_path / "end").touch()
        wait_until(lambda: states(client, "solo")[0] == "SUCCEEDED")


def test_what_keeps_a_server_from_its_cluster_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="which Ray cluster"):
        build(read_config({"STOKER_HOME": str(tmp_path), "STOKER_ENGINE": "ray"}))
