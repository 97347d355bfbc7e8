"""What every provider of machines gets, and gives: pools and options in, the content of a cluster file out.

A member writes what Ray's launcher (or KubeRay) reads; it asks no cloud and needs no credentials. What cannot be expressed
is refused with BadSpec, whose fields are flags (`--zone`) or places in the site file (`pools.t4x4`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from stoker.core.errors import BadSpec, Violation
from stoker.core.site import Pool

CLUSTER_NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
"""What every cloud takes in the names and tags of machines, with room for what Ray adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the site file does not say. Empty: the provider's own default."""

    ray_version: str  # on every machine
    python_version: str  # with all three numbers: Ray refuses a driver of another one
    idle_seconds: float  # after which an unused machine is given back
    name: str = "stoker"  # of the cluster
    project_id: str = ""  # of Google Cloud
    region: str = ""  # the cloud's own, where the pools have another cloud's
    zone: str = ""
    image: str = ""  # that machines, or containers, start from
    head: str = ""  # machine type of the head, which runs no jobs
    disk_gb: int = 200  # of every machine
    service_account: str = ""  # whose rights programs on Google's machines have
    resource_group: str = ""  # of Azure
    subscription_id: str = ""  # of Azure
    namespace: str = "default"  # of Kubernetes
    select_by: str = (
        "machine"  # how Kubernetes finds a pool's machines: by `machine` type, or by a label of the `pool`'s name
    )


class Provider(Protocol):
    """Writes the cluster file of one kind of cloud."""

    takes: ClassVar[frozenset[str]]
    """The options that mean something to it, beside those that mean something to all."""

    def render(self, pools: Sequence[Pool], options: Options) -> dict[str, Any]: ...


def refused(field: str, description: str, fix: str = "") -> BadSpec:
    """One thing that cannot be expressed."""
    return BadSpec([Violation(field, description)], fix=fix)
