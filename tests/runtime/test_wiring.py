"""What each framework is told, for every member of a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.runtime.wiring import Cluster, wiring

CLUSTER: Cluster = {
    "chief": [["h0:1", "h0:2", "h0:3"]],
    "worker": [["h1:1", "h1:2", "h1:3"], ["h2:1", "h2:2", "h2:3"]],
    "ps": [["h3:1", "h3:2", "h3:3"]],
    "evaluator": [["h4:1", "h4:2", "h4:3"]],
}


def wired(role: str, index: int = 0, cluster: Cluster = CLUSTER, **changes: Any) -> dict[str, str]:
    request: dict[str, Any] = {
        "role": role,
        "index": index,
        "primary_name": "chief",
        "cloud_id": "p/j.1",
        "told": '{"worker_count": "2"}',
        "convention": "AI_PLATFORM",
        "is_container": False,
        "devices": ["a", "b"],
        "visible_devices": "a,b",
        "loopback_interface": "lo",
        **changes,
    }
    return wiring(request, cluster)


@pytest.mark.parametrize(("role", "index"), [("chief", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)])
def test_tf_config_is_the_same_for_all_but_for_the_task(role: str, index: int) -> None:
    assert json.loads(wired(role, index)["TF_CONFIG"]) == {
        "cluster": {"chief": ["h0:1"], "worker": ["h1:1", "h2:1"], "ps": ["h3:1"]},
        "task": {"type": role, "index": index, "cloud": "p/j.1"},
        "job": {"worker_count": "2"},
        "environment": "cloud",
    }


def test_the_primary_of_old_runtimes_is_the_master() -> None:
    config = json.loads(wired("chief", primary_name="master")["TF_CONFIG"])
    assert "master" in config["cluster"] and "chief" not in config["cluster"]
    assert config["task"]["type"] == "master"


def test_a_job_of_one_has_only_its_primary_in_the_cluster() -> None:
    config = json.loads(wired("chief", cluster={"chief": [["h:1", "h:2", "h:3"]]})["TF_CONFIG"])
    assert config["cluster"] == {"chief": ["h:1"]}


def test_cluster_spec_is_for_containers_and_has_the_evaluator() -> None:
    assert "CLUSTER_SPEC" not in wired("chief")
    found = wired("worker", 0, is_container=True)
    spec = json.loads(found["CLUSTER_SPEC"])
    assert spec["cluster"] == {"chief": ["h0:1"], "worker": ["h1:1", "h2:1"], "ps": ["h3:1"], "evaluator": ["h4:1"]}
    assert spec["task"] == {"type": "worker", "index": 0, "cloud": "p/j.1"}
    assert json.loads(found["CLOUD_ML_JOB"]) == {"worker_count": "2"}


@pytest.mark.parametrize(("role", "pool"), [("chief", 0), ("worker", 1), ("ps", 2), ("evaluator", 3)])
def test_vertex_numbers_its_worker_pools(role: str, pool: int) -> None:
    found = wired(role, convention="VERTEX", told='{"worker_pool_specs": []}')
    assert json.loads(found["CLUSTER_SPEC"]) == {
        "cluster": {
            "workerpool0": ["h0:1"],
            "workerpool1": ["h1:1", "h2:1"],
            "workerpool2": ["h3:1"],
            "workerpool3": ["h4:1"],
        },
        "environment": "cloud",
        "task": {"type": f"workerpool{pool}", "index": 0},
        "job": {"worker_pool_specs": []},
    }
    assert set(json.loads(found["TF_CONFIG"])["cluster"]) == {"chief", "worker", "ps"}
    assert "CLOUD_ML_JOB" not in found


def test_vertex_leaves_out_empty_pools_and_tf_config_of_one() -> None:
    found = wired("chief", cluster={"chief": [["h:1", "h:2", "h:3"]]}, convention="VERTEX")
    assert json.loads(found["CLUSTER_SPEC"])["cluster"] == {"workerpool0": ["h:1"]}
    assert "TF_CONFIG" not in found


@pytest.mark.parametrize(("role", "index", "rank"), [("chief", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")])
def test_torch_ranks_are_the_chief_then_the_workers(role: str, index: int, rank: str) -> None:
    found = wired(role, index)
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [found[name] for name in names] == ["h0", "2", rank, "3", "0", "1"]
    assert found["GLOO_SOCKET_IFNAME"] == "lo"


@pytest.mark.parametrize(("role", "index", "rank"), [("chief", 0, "0"), ("worker", 1, "2")])
def test_jax_has_a_coordinator_of_its_own(role: str, index: int, rank: str) -> None:
    found = wired(role, index)
    names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    assert [found[name] for name in names] == ["h0:3", "3", rank]


@pytest.mark.parametrize("role", ["ps", "evaluator"])
def test_who_does_not_train_has_no_rank(role: str) -> None:
    assert not {"RANK", "MASTER_ADDR", "JAX_PROCESS_ID"} & set(wired(role))


def test_stokers_own() -> None:
    found = {key: value for key, value in wired("worker", 1).items() if key.startswith("STOKER_")}
    assert found == {
        "STOKER_ROLE": "worker",
        "STOKER_INDEX": "1",
        "STOKER_ADDRESS": "h2:1",
        "STOKER_NODE_RANK": "2",
        "STOKER_NUM_NODES": "5",
        "STOKER_NODE_IPS": "h0,h1,h2,h3,h4",
        "STOKER_MASTER_ADDR": "h0",
        "STOKER_MASTER_PORT": "1",
        "STOKER_GPUS_PER_NODE": "2",
        "STOKER_DEVICES": "/gpu:0,/gpu:1",
    }


def test_devices_are_the_replicas_own_and_none_is_said() -> None:
    assert wired("chief")["CUDA_VISIBLE_DEVICES"] == "a,b"
    none = wired("ps", devices=[], visible_devices="")
    assert (none["CUDA_VISIBLE_DEVICES"], none["STOKER_DEVICES"]) == ("", "")
