"""The documents' example on machines that are not there yet: a real server, Ray's real autoscaler, machines that are processes.

From no machine at all the 1 + 9 + 3 job has exactly 13 of two types ordered, its replicas find each other on all of them by
TF_CONFIG, and the machines go when nobody uses them. With 13 processes of TensorFlow it is `make demo-cluster`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.api.dialects.native.schemas import costs
from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.engines.ray.clusters.node_types import node_type
from stoker.site.site_file import parse_site
from tests.api.test_openapi import conforms
from tests.conftest import Server, wait_until
from tests.ray_cluster import RayCluster

pytest.importorskip("ray")
pytestmark = [pytest.mark.live, pytest.mark.campaign]

EXAMPLES = Path(__file__).parents[2] / "examples"
SITE = """
[pools.t4x4]
machine_type = "n1-highcpu-16"
accelerator_type = "T4"
accelerator_count = 4
zone = "us-central1-a"
max = 12
[pools.ps]
machine_type = "n1-highmem-8"
zone = "us-central1-a"
max = 6
[pools.sold-out]
machine_type = "n1-standard-4"
zone = "us-central1-a"
max = 2
usd_per_hour = 0.01
[pools.small]
machine_type = "n1-standard-4"
zone = "us-central1-b"
max = 2
"""
OUT_OF_STOCK = "ZONE_RESOURCE_POOL_EXHAUSTED: us-central1-a has no n1-standard-4 now"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    types = {name: node_type(pool, pool.zone, {}) for name, pool in parse_site(SITE).pools.items()}
    types["sold-out"]["node_config"] = {"refuse": OUT_OF_STOCK}
    with RayCluster(types, idle_seconds=8) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: RayCluster) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(json.dumps({"engine": "ray", "address": cluster.address, "lease_seconds": 15}))
    (home / "site.toml").write_text(SITE)
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, ("--port=0",))
    with closing(Client(found.url, found.token)) as client:
        wait_until(lambda: not client.status()["problems"])
        yield Server(home, found, client, ())
        embedded.stop(config, found)


def pools(client: Client) -> Counter[str]:
    """How many machines of each pool are there."""
    return Counter(node["node_pool"] for node in client.nodes())


def test_the_documents_example_from_nothing(server: Server, tmp_path: Path) -> None:
    client = server.client
    assert pools(client) == {}
    seen: list[Counter[str]] = []
    done = server.cli(
        *("jobs", "submit", "training", "autoscaled", "--config", str(EXAMPLES / "gpu_cluster/config.yaml")),
        *("--package-path", str(EXAMPLES / "gpu_cluster/trainer"), "--module-name", "trainer.task"),
        *("--job-dir", str(tmp_path), "--region", "us-central1", "--", "--user_arg_1", "v", "--user_arg_n", "v"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: client.details("local", "autoscaled")["state"] == "PREPARING")
    assert client.explain("local", "autoscaled")["code"] == "PROVISIONING"

    def has_ended() -> bool:
        seen.append(pools(client))
        return client.details("local", "autoscaled")["state"] in ("SUCCEEDED", "FAILED")

    wait_until(has_ended, seconds=400.0, every=0.5)
    details = client.details("local", "autoscaled")
    lines = [e["text"] for e in client.stream("local", "autoscaled", follow=False) if e["kind"] == "log"]
    assert details["state"] == "SUCCEEDED", lines
    assert max(seen, key=Counter.total) == {"t4x4": 10, "ps": 3}
    views = [json.loads(path.read_text()) for path in (tmp_path / "cluster").glob("*.json")]
    assert Counter(view["role"] for view in views) == {"chief": 1, "worker": 9, "ps": 3}
    assert len({json.dumps(view["cluster"], sort_keys=True) for view in views}) == 1, "one TF_CONFIG for all"
    assert {len(view["devices"]) for view in views if view["role"] != "ps"} == {4}
    (attempt,) = details["attempts"]
    assert len({replica["node"] for replica in attempt["replicas"]}) == 13
    (bill,) = client.costs()["bills"]
    hours = (attempt["ended_at"] - attempt["placed_at"]) / 3600
    price = sum(pool["usd_per_hour"] * {"t4x4": 10, "ps": 3}.get(pool["name"], 0) for pool in client.pools())
    assert bill["machine_hours"] == pytest.approx(13 * hours) and bill["accelerator_hours"] == pytest.approx(40 * hours)
    assert bill["usd"] == bill["ordered_usd"] == pytest.approx(price * hours)
    shown = server.cli("costs", "--by", "job").stdout
    assert "local/autoscaled" in shown and f"{bill['usd']:.2f}" in shown
    wait_until(lambda: pools(client) == {}, seconds=60.0)


def test_a_stock_out_is_told_in_the_clouds_words_and_the_next_zone_helps(server: Server) -> None:
    client = server.client
    client.run("local", {"name": "elsewhere", "command": ["python", "-c", "print('here')"], "vcpus": 4})
    wait_until(lambda: client.details("local", "elsewhere")["state"] == "SUCCEEDED", seconds=240.0)
    assert pools(client) == {"small": 1}
    assert OUT_OF_STOCK in client.node("pool:sold-out")["faults"][-1]["what"]
    listed = server.cli("nodes")
    assert OUT_OF_STOCK in listed.stderr
    row = next(line for line in listed.stdout.splitlines() if line.startswith("small "))
    assert row.split()[1:5] == ["1", "of", "2", "n1-standard-4"]
    for kind, found in ((costs.Pools, {"pools": client.pools()}), (costs.Costs, client.costs())):
        conforms(kind, found)
    wait_until(lambda: pools(client) == {}, seconds=60.0)
