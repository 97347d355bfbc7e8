"""Google Cloud, by Ray's launcher. A machine is the body of Compute Engine's `instances.insert`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from stoker.core.site import Pool
from stoker.hardware.accelerators import accelerators
from stoker.hardware.machines import find_machine_type

from . import launch
from .base import Options, refused
from .node_types import node_type
from .place import google_place

IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"
"""Google's own image with NVIDIA's driver, of the last series that knows Pascal and Volta."""

HEAD = "e2-standard-4"
_DRIVER_SECONDS = 900
"""An image without a driver installs it when it starts first, if it can: that takes minutes."""


class Gcp:
    """Google Cloud, in one zone."""

    takes: ClassVar[frozenset[str]] = frozenset({"project_id", "zone", "head", "disk_gb", "service_account"})

    def render(self, pools: Sequence[Pool], options: Options) -> dict[str, Any]:
        """The cluster file."""
        if not options.project_id:
            raise refused("--project-id", "is needed: the Google Cloud project that pays for the machines")
        place = google_place(pools, options.zone)
        node_types = {}
        for pool in place.pools:
            node_types[pool.name] = node_type(pool, place.zone_of(pool), _machine(pool, place.zone, options))
            if pool.accelerators:
                node_types[pool.name]["initialization_commands"] = [_wait_for_driver()]
        provider = {
            "type": "gcp",
            "region": place.region,
            "availability_zone": place.zone,
            "project_id": options.project_id,
            "cache_stopped_nodes": False,  # a machine that is given back is deleted, with its disk
        }
        head = {"machineType": options.head or HEAD, "disks": _disks(place.zone, options)}
        return launch.cluster(
            options, place.pools, provider, head, node_types, sdk=("google-api-python-client", "google-auth-httplib2")
        )


def _machine(pool: Pool, zone: str, options: Options) -> dict[str, Any]:
    name = pool.machine or pool.instance
    if not name:
        raise refused(f"pools.{pool.name}", "has no `machine_type`: what is such a machine called on Google Cloud?")
    body: dict[str, Any] = {"machineType": name, "disks": _disks(zone, options), "scheduling": _scheduling(pool)}
    if pool.accelerators:
        body |= _attached(pool, name)
        body["metadata"] = {"items": [{"key": "install-nvidia-driver", "value": "True"}]}
    if options.service_account:
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
        body["serviceAccounts"] = [{"email": options.service_account, "scopes": scopes}]
    return body


def _attached(pool: Pool, name: str) -> dict[str, Any]:
    """The GPUs beside the machine; some types have theirs built in."""
    known = find_machine_type(name)
    if known is not None and known.accelerator:
        return {}
    accelerator = accelerators().get(pool.accelerator)
    if accelerator is None or not accelerator.gce_name:
        raise refused(f"pools.{pool.name}", f"Google Cloud has no {pool.accelerator}")
    return {
        "guestAccelerators": [{"acceleratorType": accelerator.gce_name, "acceleratorCount": pool.accelerators}],
    }


def _scheduling(pool: Pool) -> dict[str, Any]:
    """A machine with GPUs cannot move to another host, and one that went is a new node: Stoker decides what follows."""
    rules: dict[str, Any] = {"automaticRestart": False}
    if pool.accelerators or pool.spot:
        rules["onHostMaintenance"] = "TERMINATE"
    if pool.spot:
        rules |= {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
    return rules


def _disks(zone: str, options: Options) -> list[dict[str, Any]]:
    start = {
        "sourceImage": options.image or IMAGE,
        "diskSizeGb": options.disk_gb,
        "diskType": f"zones/{zone}/diskTypes/pd-balanced",
    }
    return [{"boot": True, "autoDelete": True, "type": "PERSISTENT", "initializeParams": start}]


def _wait_for_driver() -> str:
    return f"timeout {_DRIVER_SECONDS} bash -c 'until nvidia-smi; do sleep 5; done'"
