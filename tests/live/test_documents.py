"""The documents' own examples: each validates, and each runs as a rehearsal with all its 13 replicas."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live
FOLDER = Path(__file__).parents[2] / "examples/gpu_cluster"
BY_FLAGS = (
    *("--region", "us-central1", "--scale-tier", "custom"),
    *("--master-machine-type", "n1-highcpu-16", "--master-accelerator", "count=4,type=nvidia-tesla-t4"),
    *("--worker-count", "9", "--worker-machine-type", "n1-highcpu-16"),
    *("--worker-accelerator", "count=4,type=nvidia-tesla-t4"),
    *("--parameter-server-count", "3", "--parameter-server-machine-type", "n1-highmem-8"),
)
WAYS = {
    "config": ("--config", str(FOLDER / "config.yaml")),
    "legacy": ("--config", str(FOLDER / "legacy.yaml")),
    "flags": BY_FLAGS,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_validates(server: Server, way: str) -> None:
    done = server.cli("check", "--json", *WAYS[way])
    found = json.loads(done.stdout)
    assert (done.returncode, found["valid"], found["total"]["replicas"], found["total"]["accelerators"]) == (
        0,
        True,
        13,
        40,
    )


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_as_a_rehearsal(server: Server, way: str) -> None:
    name = f"rehearsed_{way}"
    done = server.cli(
        *("rehearse", name, *WAYS[way], "--package-path", str(FOLDER / "trainer"), "--module-name", "trainer.task"),
        *("--job-dir", f"gs://rehearsals/{name}", "--", "--user_arg_1", "value_1", "--user_arg_n", "value_n"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = {
        path.stem: json.loads(path.read_text())
        for path in (server.home / "buckets/gs/rehearsals" / name / "cluster").glob("*.json")
    }
    gpu_roles = {"chief-0", *(f"worker-{n}" for n in range(9))}
    assert set(said) == gpu_roles | {f"ps-{n}" for n in range(3)}
    assert len({json.dumps(view["cluster"], sort_keys=True) for view in said.values()}) == 1
    cluster = said["chief-0"]["cluster"]
    assert {role: len(addresses) for role, addresses in cluster.items()} == {"chief": 1, "worker": 9, "ps": 3}
    assert len({address for addresses in cluster.values() for address in addresses}) == 13
    for replica, view in said.items():
        expected = [f"/gpu:{n}" for n in range(4)] if replica in gpu_roles else []
        assert (view["role"], view["index"]) == (replica.rpartition("-")[0], int(replica.rpartition("-")[2]))
        assert view["devices"] == expected, replica
    details = server.client.details("local", name)
    assert details["state"] == "SUCCEEDED"
    assert all(r["state"] in ("SUCCEEDED", "FAILED") for r in details["attempts"][-1]["replicas"])


def test_nothing_is_left_behind(server: Server) -> None:
    marked = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("STOKER_JOB_NAME", "").startswith("rehearsed_"):
                marked.append(process)
        except psutil.Error:
            continue
    assert not marked
    assert not [node for node in server.client.nodes() if node["name"].startswith("rehearsal-")]


def test_without_a_rehearsal_it_is_refused_with_the_way_to_rehearse(server: Server) -> None:
    done = server.cli(
        *("jobs", "submit", "training", "refused", *WAYS["config"]),
        *("--package-path", str(FOLDER / "trainer"), "--module-name", "trainer.task"),
    )
    assert done.returncode == 6
    assert "no node here could ever hold" in done.stderr and "stoker rehearse" in done.stderr
