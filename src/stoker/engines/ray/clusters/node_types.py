"""What Ray is told of a pool's machines, the same for every provider: resources, labels, how many."""

from __future__ import annotations

import math
from typing import Any

from stoker.core.site import Pool
from stoker.engines.ray.accelerator_names import ray_name
from stoker.engines.ray.inventory import MACHINE_LABEL, POOL_LABEL, POOL_RESOURCE

HEAD_TYPE = "ray_head"
"""The head's type. The names of pools have no underscore, and those of Google's labels no dot."""


def resources(pool: Pool) -> dict[str, int]:
    """What one machine counts as: the pool's own figures, by which jobs are checked, also where a larger one stands for it."""
    found = {
        "CPU": int(pool.vcpus),
        "memory": math.ceil(pool.memory_gb * 2**30),
    }  # rounded up: all of it can be asked for
    if pool.accelerators:
        found |= {"GPU": pool.accelerators, f"accelerator_type:{ray_name(pool.accelerator)}": 1}
    return found | {f"{POOL_RESOURCE}{pool.name}": 1}


def labels(pool: Pool, zone: str) -> dict[str, str]:
    """What a node says of itself. `zone`: where it is, if anybody knows."""
    told = {
        POOL_LABEL: pool.name,
        MACHINE_LABEL: pool.machine,
        "ray.io/accelerator-type": ray_name(pool.accelerator) if pool.accelerators else "",
        "ray.io/availability-region": pool.region,
        "ray.io/availability-zone": zone,
        "ray.io/market-type": "spot" if pool.spot else "on-demand",
    }
    return {label: text for label, text in told.items() if text}


def node_type(pool: Pool, zone: str, node_config: dict[str, Any]) -> dict[str, Any]:
    """A pool as Ray's launcher has it."""
    return {
        "min_workers": pool.least,
        "max_workers": pool.most,
        "resources": resources(pool),
        "labels": labels(pool, zone),
        "node_config": node_config,
    }


def head_type(node_config: dict[str, Any]) -> dict[str, Any]:
    """The head: it has no CPUs to give, so no job runs there."""
    return {"min_workers": 0, "max_workers": 0, "resources": {"CPU": 0}, "node_config": node_config}
