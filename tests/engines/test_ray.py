"""A Ray cluster as an engine: real raylets, real actors, real supervisors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stoker.core.copies import replace
from stoker.core.errors import EngineError, Unavailable
from stoker.core.launch import Launch
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Engine
from stoker.engines.local.isolation import detect
from stoker.engines.ray.engine import RayEngine, is_loopback
from stoker.engines.ray.node_settings import DEFAULTS, NodeSettings
from stoker.runtime.zipapp import build
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, EngineContract, a_launch, look, until
from tests.ray_cluster import RayCluster

pytest.importorskip("ray")
from ray._raylet import GcsClient

from stoker.engines.ray.entrance import is_open, why_not

pytestmark = pytest.mark.live

RUN = os.urandom(8).hex()
"""What an earlier run of these tests may have left on this machine is not ours."""

UNTIL_FLAG = """
import os, sys, time
open(sys.argv[1] + ".begun", "x").close()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
"""It can begin only once: a second time the file is there already."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        cluster.add(1, cpus=8, gpus=4, labels={"ray.io/accelerator-type": "T4"})
        yield cluster


def test_a_cluster_that_asks_nobody_for_a_token_is_for_loopback_alone(cluster: RayCluster) -> None:
    assert is_open(cluster.address)
    assert why_not(cluster.address) == ""
    _, _, port = cluster.address.rpartition(":")
    outside = [a.address for rows in psutil.net_if_addrs().values() for a in rows if a.family == socket.AF_INET]
    for address in outside:  # the same head, as others reach it
        is_far = not is_loopback(address)
        assert ("lets everybody in its network run code" in why_not(f"{address}:{port}")) == is_far


@pytest.mark.parametrize(("what", "other"), [("ray_version", "2.9.3"), ("python_version", "3.9.1")])
def test_a_cluster_of_other_versions_is_refused_with_both(cluster: RayCluster, what: str, other: str) -> None:
    notes, place = GcsClient(address=cluster.address), (b"CLUSTER_METADATA", b"cluster")
    true = notes.internal_kv_get(*place)
    told = json.dumps({**json.loads(true), what: other}).encode()
    notes.internal_kv_put(place[0], told, True, place[1])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stoker.engines.ray.driver", cluster.address, "nobody"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        notes.internal_kv_put(place[0], true, True, place[1])
    said = json.loads(done.stdout.splitlines()[0])
    assert said["event"] == "refused" and other in said["why"] and json.loads(true)[what] in said["why"]
    assert said["why"].endswith("Let Ray and Python be of the same versions here and there")


def a_ray_engine(home: Path, cluster: RayCluster, settings: NodeSettings = DEFAULTS) -> RayEngine:
    """An engine that has seen the cluster's nodes."""
    engine = RayEngine(
        home,
        cluster.address,
        runtime=Path(build(str(home / "cache"))),
        server_url="http://127.0.0.1:9",
        token=lambda attempt: f"{RUN} {home} {attempt}",
        settings=settings,
    )
    wait_until(engine.nodes)
    return engine


class TestRayEngine(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path, cluster: RayCluster) -> Iterator[Engine]:
        self.flag = tmp_path / "end"
        self.ray = a_ray_engine(tmp_path, cluster)
        yield self.ray
        self.ray.stop(ATTEMPT, force=True)
        self.ray.forget(ATTEMPT)
        self.ray.close()

    def endless(self) -> Launch:
        node = self.ray.nodes()[0].name
        return a_launch(sys.executable, "-c", UNTIL_FLAG, str(self.flag), node=node)

    def end(self, engine: Engine) -> None:
        self.flag.touch()

    def test_who_is_told_to_stop_has_its_grace(self, engine: Engine, tmp_path: Path) -> None:
        script = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1] + ".saved", "x").close(), sys.exit(0)))
open(sys.argv[1] + ".begun", "x").close()
time.sleep(60)
"""
        launch = a_launch(sys.executable, "-c", script, str(self.flag), node=self.ray.nodes()[0].name)
        engine.start(engine.render(launch))
        wait_until(self.flag.with_suffix(".begun").exists)
        engine.stop(ATTEMPT, force=False)
        wait_until(self.flag.with_suffix(".saved").exists)

    def test_nothing_starts_where_nobody_could_reach_the_server_and_that_is_said(self, engine: Engine) -> None:
        with pytest.raises(EngineError, match="start it with --host"):
            engine.start(engine.render(a_launch("true", node="192.0.2.7-1a2b3c4d")))
        engine.stop(ATTEMPT, force=False)  # as whoever gives up does
        seen = until(engine, ReplicaState.FAILED)
        assert "the server listens on 127.0.0.1, where 192.0.2.7 cannot reach it" in seen.message

    @pytest.mark.parametrize(
        "text", ['{"seen": "FAILED", "exit_code": "rm"}', '{"seen": "FAILED", "restarts": "x"}', "[" * 9999]
    )
    def test_what_a_program_writes_into_its_status_harms_nobody_else(self, engine: Engine, text: str) -> None:
        script = """
import glob, os, sys, time
open(sys.argv[1] + ".begun", "x").close()
folder = os.path.dirname(os.getcwd())
while True:
    open(os.path.join(folder, "status.json"), "w").write(sys.argv[2])
    time.sleep(0.01)
"""
        launch = a_launch(sys.executable, "-c", script, str(self.flag), text, node=self.ray.nodes()[0].name)
        engine.start(engine.render(launch))
        wait_until(self.flag.with_suffix(".begun").exists)
        look(engine)
        engine.stop(ATTEMPT, force=True)
        assert until(engine, *FINAL_REPLICA_STATES).state in (ReplicaState.LOST, ReplicaState.FAILED)

    def test_the_nodes_are_rays(self, engine: Engine) -> None:
        (node,) = engine.nodes()
        assert (node.accelerator, len(node.devices), node.vcpus) == ("NVIDIA_TESLA_T4", 4, 8.0)
        assert engine.nodes() is engine.nodes()

    def test_another_engine_of_the_home_finds_what_the_first_has_started(
        self, engine: Engine, tmp_path: Path, cluster: RayCluster
    ) -> None:
        engine.start(engine.render(self.endless()))
        wait_until(self.flag.with_suffix(".begun").exists)
        self.ray.close()
        self.ray = a_ray_engine(tmp_path, cluster)
        assert look(self.ray).state in (ReplicaState.STARTING, ReplicaState.UP)
        self.ray.start(self.ray.render(self.endless()))
        self.end(self.ray)
        assert until(self.ray, ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST).exit_code == 0

    def test_a_worker_of_rays_is_ready_and_ends_with_the_driver(self, engine: Engine, cluster: RayCluster) -> None:
        wait_until(cluster.idle_workers)
        self.ray.close()
        wait_until(lambda: not cluster.idle_workers())


ISOLATED = """
import os, sys
print("user", os.getuid(), "home", os.path.basename(os.environ["HOME"]))
print("others", os.path.exists(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("level", "user", "home"), [("0", os.getuid(), ""), ("1", os.getuid(), "ada"), ("2", 20_007, "ada")]
)
def test_programs_are_kept_apart_on_nodes_as_here(
    cluster: RayCluster, tmp_path: Path, level: str, user: int, home: str
) -> None:
    if level != "0" and why_not_isolated(level, tmp_path):
        pytest.skip(why_not_isolated(level, tmp_path))
    settings = NodeSettings(isolation=level, user_of=lambda owner: {"ada": 20_007}[owner])
    engine = a_ray_engine(tmp_path, cluster, settings)
    others = tempfile.NamedTemporaryFile(dir="/tmp")  # of somebody else on this machine
    try:
        words = [sys.executable, "-c", ISOLATED, others.name]
        launch = replace(a_launch(*words, node=engine.nodes()[0].name), owner="ada")
        engine.start(engine.render(launch))
        assert until(engine, *FINAL_REPLICA_STATES).state is ReplicaState.SUCCEEDED
        lines = [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0)]
        assert any(line.startswith(f"user {user} home {home}") for line in lines), lines
        assert f"others {level == '0'}" in lines, lines
    finally:
        engine.stop(ATTEMPT, force=True)
        engine.forget(ATTEMPT)
        engine.close()
        others.close()


def why_not_isolated(level: str, home: Path) -> str:
    """Why this machine does not have a level; empty: it has."""
    try:
        detect(level, home)
    except Unavailable as error:
        return error.message
    return ""
