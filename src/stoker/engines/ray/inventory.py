"""Ray's nodes as Stoker's. Pure.

Ray has its own names for accelerators, and counts devices, vCPUs and memory as resources:
https://docs.ray.io/en/latest/ray-core/accelerator-types.html, and for labels
https://docs.ray.io/en/latest/ray-core/scheduling/labels.html.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.core.copies import replace
from stoker.core.node import Node, NodeState, replicas_by_memory
from stoker.core.site import Pool
from stoker.hardware.accelerators import find_accelerator

MACHINE_LABEL = "stoker.io/machine-type"
"""A label of ours that tells the machine type of a Ray node."""

POOL_LABEL = "stoker.io/pool"
"""A label of ours that tells which pool of the site file a Ray node was ordered for."""

POOL_RESOURCE = "stoker-pool-"
"""Each machine of a pool has one unit of a resource of this name with the pool's behind it: by that machines are ordered."""

_ACCELERATOR_RESOURCE = "accelerator_type:"
_UNNAMED = "GPU"
"""The accelerator of a node with GPUs of which Ray does not know the type."""


def nodes_of(
    rows: Iterable[Mapping[str, Any]], lease_seconds: float, pools: Mapping[str, Pool] | None = None
) -> tuple[Node, ...]:
    """The nodes that are alive and have something to give, by name. `rows`: as `ray.nodes()` tells them.

    One that Ray drains has `DrainedByMs` too: since 1970, by when it will be gone, as Ray was told; 0: nobody has said when.
    What a pool of the site says of its machines goes over what Ray says, but for how much there is of them.
    """
    found = [_of_pool(row, _node(row, lease_seconds), pools or {}) for row in rows if row["Alive"]]
    return tuple(sorted((node for node in found if node.vcpus or node.devices), key=lambda node: node.name))


def name_of(row: Mapping[str, Any]) -> str:
    """A node's name: where it is, and which life of it. One that was lost and is back is another: nothing of ours runs there."""
    return f"{row['NodeManagerAddress']}-{row['NodeID'][:8]}"


def _node(row: Mapping[str, Any], lease_seconds: float) -> Node:
    resources, labels = row["Resources"], row.get("Labels") or {}
    memory_gb = math.floor(resources.get("memory", 0.0) / 2**30 * 10) / 10  # never more than Ray has
    return Node(
        name=name_of(row),
        engine="ray",
        region=labels.get("ray.io/availability-region", ""),
        zone=labels.get("ray.io/availability-zone", ""),
        machine=labels.get(MACHINE_LABEL, ""),
        accelerator=_accelerator(resources, labels) if resources.get("GPU") else "",
        devices=tuple(str(n) for n in range(int(resources.get("GPU", 0)))),
        vcpus=float(resources.get("CPU", 0.0)),
        memory_gb=memory_gb,
        most_replicas=replicas_by_memory(memory_gb),
        state=NodeState.DRAINING if row.get("DrainedByMs") == 0 else NodeState.UP,
        lease_seconds=lease_seconds,
        leaving_at=row["DrainedByMs"] / 1000 if row.get("DrainedByMs") else None,
        node_pool=labels.get(POOL_LABEL, ""),
        spot=labels.get("ray.io/market-type") == "spot",
    )


def _of_pool(row: Mapping[str, Any], node: Node, pools: Mapping[str, Pool]) -> Node:
    pool = pools.get(node.node_pool)
    if pool is None:
        return node if not node.node_pool else replace(node, node_pool="")  # of a pool that the site has no more
    has_all = row["Resources"].get("memory", 0.0) >= pool.memory_gb * 2**30
    memory_gb = pool.memory_gb if has_all else node.memory_gb
    return replace(
        node,
        memory_gb=memory_gb,
        most_replicas=replicas_by_memory(memory_gb),
        region=pool.region,
        zone=pool.zone,
        machine=pool.machine,
        accelerator=pool.accelerator if node.devices else "",
        spot=pool.spot,
    )


def _accelerator(resources: Mapping[str, float], labels: Mapping[str, str]) -> str:
    told = [name.removeprefix(_ACCELERATOR_RESOURCE) for name in resources if name.startswith(_ACCELERATOR_RESOURCE)]
    name = labels.get("ray.io/accelerator-type") or next(iter(sorted(told)), "")
    found = find_accelerator(name) if name else None
    return found.name if found else name.upper() or _UNNAMED
