"""Azure, by Ray's launcher. A machine is the parameters of Ray's own template (`azure-vm-template.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from stoker.core.site import Pool

from . import launch
from .base import Options, refused
from .instances import instance_of
from .node_types import node_type
from .place import foreign_place

IMAGE = "microsoft-dsvm:ubuntu-2204:2204-gen2:latest"
"""Microsoft's image for data science, which Ray takes as well: publisher, offer, plan, version."""

HEAD = "Standard_D4s_v3"
_IMAGE_PARTS = ("imagePublisher", "imageOffer", "imageSku", "imageVersion")
_ZONES = frozenset({"1", "2", "3"})
_SDK = (
    "azure-core",
    "azure-identity",
    "azure-mgmt-compute",
    "azure-mgmt-network",
    "azure-mgmt-resource",
    "azure-common",
    "msrest",
    "msrestazure",
)


class Azure:
    """Azure, in one region. Each pool may have a zone of its own."""

    takes: ClassVar[frozenset[str]] = frozenset(
        {"region", "zone", "head", "disk_gb", "resource_group", "subscription_id"}
    )

    def render(self, pools: Sequence[Pool], options: Options) -> dict[str, Any]:
        """The cluster file."""
        place = foreign_place(pools, options, "Azure", "westus2", many_zones=True)
        node_types = {}
        for pool in place.pools:
            instance = instance_of(pool, "azure", place.region, "Azure")
            zone = place.zone or ("" if place.translated else pool.zone)
            if zone and zone not in _ZONES:
                raise refused(
                    f"pools.{pool.name}", f"its zone is {zone}, and Azure's are 1, 2 and 3", fix="give --zone"
                )
            parameters = {**_parameters(instance, options), "availability_zone": zone or "auto"}
            if pool.spot:
                parameters |= {"priority": "Spot", "billingProfile": {"maxPrice": -1}}  # up to the price on demand
            node_types[pool.name] = node_type(pool, place.zone_of(pool), {"azure_arm_parameters": parameters})
        provider = {
            "type": "azure",
            "location": place.region,
            "resource_group": options.resource_group or options.name,
            "cache_stopped_nodes": False,  # a machine that is given back is deleted
        }
        if options.subscription_id:
            provider["subscription_id"] = options.subscription_id
        head = {**_parameters(options.head or HEAD, options), "availability_zone": "none"}
        return launch.cluster(options, place.pools, provider, {"azure_arm_parameters": head}, node_types, sdk=_SDK)


def _parameters(instance: str, options: Options) -> dict[str, Any]:
    return {"vmSize": instance, **_image(options.image or IMAGE), "osDiskSize": options.disk_gb}


def _image(image: str) -> dict[str, str]:
    """`PUBLISHER:OFFER:PLAN:VERSION`, or the resource id of an image of one's own."""
    if image.startswith("/"):
        return {"imageId": image}
    parts = image.split(":")
    if len(parts) != len(_IMAGE_PARTS) or not all(parts):
        raise refused("--image", "is PUBLISHER:OFFER:PLAN:VERSION, or a resource id that begins with /subscriptions/")
    return dict(zip(_IMAGE_PARTS, parts, strict=True))
