"""The environment variables by which each framework learns its place in the cluster. Pure.

Sources: AI Platform Training, distributed-training-details and distributed-training-containers (TF_CONFIG, CLUSTER_SPEC);
Vertex AI, distributed-training (worker pools); PyTorch, torch.distributed `env://` initialisation; JAX,
`jax.distributed.initialize`.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List

Cluster = Dict[str, List[List[str]]]
"""Role → for each index its addresses: the cluster's own, then torch's and JAX's. Known once every replica has joined."""


VERTEX = "VERTEX"  # as core/convention.py has it: nothing of Stoker's can be imported here
POOLS = ("chief", "worker", "ps", "evaluator")


def cluster_of(cluster: Cluster, primary_name: str) -> Dict[str, List[str]]:
    """The `cluster` of TF_CONFIG: the chief by its given name, no evaluators, no empty roles; the same for every replica."""
    names = {"chief": primary_name, "worker": "worker", "ps": "ps"}
    return {name: [a[0] for a in cluster[role]] for role, name in names.items() if cluster.get(role)}


def wiring(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    """Every variable that depends on who takes part and where."""
    variables = _vertex(request, cluster) if request["convention"] == VERTEX else _ai_platform(request, cluster)
    variables.update(_torch(request, cluster))
    variables.update(_jax(request, cluster))
    variables.update(_stoker(request, cluster))
    variables["CUDA_VISIBLE_DEVICES"] = request["visible_devices"]
    return variables


def _ai_platform(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    """TF_CONFIG for everybody, CLUSTER_SPEC for containers (contract 3.3, 3.4)."""
    spec = _tf_config(request, cluster)
    variables = {"TF_CONFIG": json.dumps(spec)}
    if request["is_container"]:
        whole = dict(spec["cluster"])
        if cluster.get("evaluator"):
            whole["evaluator"] = [a[0] for a in cluster["evaluator"]]
        variables["CLUSTER_SPEC"] = json.dumps({**spec, "cluster": whole})
        variables["CLOUD_ML_JOB"] = request["told"]
    return variables


def _vertex(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    """CLUSTER_SPEC by worker pools for everybody, evaluators among them; TF_CONFIG where there is more than one replica."""
    pools = {f"workerpool{n}": cluster[role] for n, role in enumerate(POOLS) if cluster.get(role)}
    spec = {
        "cluster": {pool: [a[0] for a in addresses] for pool, addresses in pools.items()},
        "environment": "cloud",
        "task": {"type": f"workerpool{POOLS.index(request['role'])}", "index": request["index"]},
        "job": json.loads(request["told"]),
    }
    variables = {"CLUSTER_SPEC": json.dumps(spec)}
    if sum(map(len, cluster.values())) > 1:
        variables["TF_CONFIG"] = json.dumps(_tf_config(request, cluster))
    return variables


def _tf_config(request: Dict[str, Any], cluster: Cluster) -> Dict[str, Any]:
    role, index = request["role"], request["index"]
    task = {"type": request["primary_name"] if role == "chief" else role, "index": index, "cloud": request["cloud_id"]}
    return {
        "cluster": cluster_of(cluster, request["primary_name"]),
        "task": task,
        "job": json.loads(request["told"]),
        "environment": "cloud",
    }


def _ranks(cluster: Cluster) -> List[List[str]]:
    """Who trains, in the order of ranks: the chief is 0, then the workers. Parameter servers and evaluators have none."""
    return cluster.get("chief", []) + cluster.get("worker", [])


def _rank(request: Dict[str, Any]) -> int:
    if request["role"] == "chief":
        return 0
    return 1 + int(request["index"]) if request["role"] == "worker" else -1


def _torch(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    trainers, rank = _ranks(cluster), _rank(request)
    if rank < 0:
        return {}
    host, port = trainers[0][1].rsplit(":", 1)
    variables = {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(len(trainers)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "NODE_RANK": str(rank),
        # For programs that call torchrun themselves: without it an elastic restart may meet its dead predecessor's addresses.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if request["loopback_interface"]:
        variables["GLOO_SOCKET_IFNAME"] = request["loopback_interface"]
        variables["NCCL_SOCKET_IFNAME"] = request["loopback_interface"]
    return variables


def _jax(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    trainers, rank = _ranks(cluster), _rank(request)
    if rank < 0:
        return {}
    return {
        "JAX_COORDINATOR_ADDRESS": trainers[0][2],
        "JAX_NUM_PROCESSES": str(len(trainers)),
        "JAX_PROCESS_ID": str(rank),
    }


def _stoker(request: Dict[str, Any], cluster: Cluster) -> Dict[str, str]:
    everyone = [a[0] for role in ("chief", "worker", "ps", "evaluator") for a in cluster.get(role, [])]
    own = cluster[request["role"]][request["index"]][0]
    trainers = _ranks(cluster)
    host, port = trainers[0][0].rsplit(":", 1) if trainers else ("", "")
    virtual = {"STOKER_VIRTUAL_NODE": "1"} if request.get("is_virtual") else {}
    return {
        **virtual,
        "STOKER_ROLE": request["role"],
        "STOKER_INDEX": str(request["index"]),
        "STOKER_ADDRESS": own,
        "STOKER_NODE_RANK": str(everyone.index(own)),
        "STOKER_NUM_NODES": str(len(everyone)),
        "STOKER_NODE_IPS": ",".join(a.rsplit(":", 1)[0] for a in everyone),
        "STOKER_MASTER_ADDR": host,
        "STOKER_MASTER_PORT": port,
        "STOKER_GPUS_PER_NODE": str(len(request["devices"])),
        "STOKER_DEVICES": ",".join(f"/gpu:{n}" for n in range(len(request["devices"]))),
    }
