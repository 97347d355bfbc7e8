"""AWS, by Ray's launcher. A machine is what EC2's `create_instances` takes; networks and keys Ray makes itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from stoker.core.site import Pool

from . import launch
from .base import Options, refused
from .instances import instance_of
from .node_types import node_type
from .place import foreign_place

HEAD = "m5.xlarge"


class Aws:
    """AWS, in one region; in one zone of it if the pools, or `--zone`, say so.

    Ray knows zones for the cluster as a whole: a type of machines is bound to one only by the subnets of somebody's network.
    """

    takes: ClassVar[frozenset[str]] = frozenset({"region", "zone", "head", "disk_gb"})

    def render(self, pools: Sequence[Pool], options: Options) -> dict[str, Any]:
        """The cluster file."""
        place = foreign_place(pools, options, "AWS", "us-west-2", many_zones=False)
        if place.zone and not place.zone.startswith(place.region):
            raise refused("--zone", f"{place.zone} is not in {place.region}, whose zones are {place.region}a and so on")
        node_types = {}
        for pool in place.pools:
            machine = _machine(instance_of(pool, "aws", place.region, "AWS"), options)
            if pool.spot:
                machine["InstanceMarketOptions"] = {"MarketType": "spot"}
            node_types[pool.name] = node_type(pool, place.zone_of(pool), machine)
        provider: dict[str, Any] = {"type": "aws", "region": place.region}
        if place.zone:
            provider["availability_zone"] = place.zone
        provider["cache_stopped_nodes"] = False  # a machine that is given back is ended, with its disk
        head = _machine(options.head or HEAD, options)
        return launch.cluster(options, place.pools, provider, head, node_types, sdk=("boto3",))


def _machine(instance: str, options: Options) -> dict[str, Any]:
    disk = {"VolumeSize": options.disk_gb, "VolumeType": "gp3", "DeleteOnTermination": True}
    image = {"ImageId": options.image} if options.image else {}  # without one Ray takes its own for the region
    return {"InstanceType": instance, **image, "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": disk}]}
