"""Which machine of another cloud stands for a pool's, whose type is Google's."""

from __future__ import annotations

from stoker.core.site import Pool
from stoker.hardware.instances import cheapest_instance, instances_with

from .base import refused


def instance_of(pool: Pool, provider: str, region: str, cloud: str) -> str:
    """What the cloud calls it: what the site file says, or the cheapest that has the same GPUs and is no smaller."""
    if pool.instance:
        return pool.instance
    where = f"pools.{pool.name}"
    if not pool.accelerators:
        raise refused(where, f'needs `instance = "..."`: no table here has {cloud}\'s machines without GPUs')
    found = cheapest_instance(provider, region, pool.accelerator, pool.accelerators, pool.vcpus, pool.memory_gb)
    if found is not None:
        return found.name
    what = f"{pool.accelerators} x {pool.accelerator}, {pool.vcpus:g} vCPUs and {pool.memory_gb:g} GB"
    others = sorted({one.name for one in instances_with(provider, pool.accelerator, pool.accelerators)})
    known = f"; with these GPUs there is {', '.join(others)}, too small or elsewhere" if others else ""
    raise refused(
        where, f'no machine of {cloud}\'s in {region} is known to have {what}{known}: say it by `instance = "..."`'
    )
