"""Kubernetes, by KubeRay: a `RayCluster` in which each pool is a group of pods, one pod on each machine.

Needs KubeRay 1.5.1: groups say their resources and labels themselves, and Ray's token is made by the operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stoker.core.site import Pool
from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from stoker.engines.ray.inventory import POOL_LABEL
from stoker.hardware.accelerators import accelerators
from stoker.hardware.regions import find_region

from .base import Options, refused
from .node_types import labels, resources

IMAGE = "rayproject/ray"
SELECT_BY = ("machine", "pool")
_HEAD_GROUP = "headgroup"  # what Ray calls the head's group beside the others
_SHARE_OF_CPUS, _SHARE_OF_MEMORY = (
    0.8,
    0.75,
)  # what a pod asks for: the machine's own need the rest, and no second pod fits
_ENVIRONMENT: Mapping[str, str] = {"RAY_USAGE_STATS_ENABLED": "0", **HEALTH_ENVIRONMENT}


class KubeRay:
    """Kubernetes with KubeRay. Machines are ordered by the cluster's own autoscaler, for pods that find no place."""

    takes: ClassVar[frozenset[str]] = frozenset({"namespace", "select_by"})

    def render(self, pools: Sequence[Pool], options: Options) -> dict[str, Any]:
        """The custom resource."""
        for pool in pools:
            if pool.name == _HEAD_GROUP:
                raise refused(f"pools.{pool.name}", "is what KubeRay calls the head: give the pool another name")
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": options.name, "namespace": options.namespace},
            "spec": {
                "rayVersion": options.ray_version,
                "authOptions": {"mode": "token"},
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": {
                    "version": "v2",
                    "upscalingMode": "Aggressive",
                    "idleTimeoutSeconds": math.ceil(options.idle_seconds),
                },
                "headGroupSpec": {
                    "rayStartParams": {},
                    "resources": {"CPU": "0"},  # no job runs there
                    "template": {"spec": _pod("ray-head", _image(options, gpu=False), {"cpu": "2", "memory": "8Gi"})},
                },
                "workerGroupSpecs": [_group(pool, options) for pool in pools],
            },
        }


def _group(pool: Pool, options: Options) -> dict[str, Any]:
    return {
        "groupName": pool.name,
        "replicas": pool.least,
        "minReplicas": pool.least,
        "maxReplicas": pool.most,
        "rayStartParams": {},
        "resources": {name: str(amount) for name, amount in resources(pool).items()},
        "labels": labels(pool, pool.zone),
        "template": {"spec": _worker(pool, options)},
    }


def _worker(pool: Pool, options: Options) -> dict[str, Any]:
    asked = {
        "cpu": f"{math.floor(pool.vcpus * _SHARE_OF_CPUS * 1000)}m",
        "memory": f"{math.floor(pool.memory_gb * _SHARE_OF_MEMORY * 1024)}Mi",
    }
    spec = _pod("ray-worker", _image(options, gpu=bool(pool.accelerators)), asked, pool.accelerators)
    if pool.accelerators:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    spec["nodeSelector"] = _selector(pool, options.select_by)
    return spec


def _selector(pool: Pool, select_by: str) -> dict[str, str]:
    """By which labels of Kubernetes' nodes a pool's machines are found."""
    if select_by == "pool":
        return {POOL_LABEL: pool.name}
    machine = pool.instance or pool.machine
    if not machine:
        why = "has neither `machine_type` nor `instance`, by which Kubernetes could find its machines"
        raise refused(f"pools.{pool.name}", why, fix="label them stoker.io/pool=NAME, and give --select-by pool")
    selector = {"node.kubernetes.io/instance-type": machine}
    if pool.zone:
        selector["topology.kubernetes.io/zone"] = pool.zone
    if find_region(pool.region) is not None and not pool.instance:  # GKE's own labels
        if pool.accelerators:
            selector["cloud.google.com/gke-accelerator"] = _gke_name(pool)
        if pool.spot:
            selector["cloud.google.com/gke-spot"] = "true"
    return selector


def _gke_name(pool: Pool) -> str:
    accelerator = accelerators().get(pool.accelerator)
    if accelerator is None or not accelerator.gce_name:
        raise refused(f"pools.{pool.name}", f"Google Cloud has no {pool.accelerator}", fix="give --select-by pool")
    return accelerator.gce_name


def _pod(name: str, image: str, asked: Mapping[str, str], gpus: int = 0) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "env": [{"name": key, "value": value} for key, value in _ENVIRONMENT.items()],
        "resources": {"requests": dict(asked)},  # no limits: a job may have the whole machine
    }
    if gpus:
        container["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
        container["resources"]["limits"] = {"nvidia.com/gpu": str(gpus)}
    return {"restartPolicy": "Never", "containers": [container]}  # a node that went is another when it is back


def _image(options: Options, *, gpu: bool) -> str:
    if options.image:
        return options.image
    python = "".join(options.python_version.split(".")[:2])
    return f"{IMAGE}:{options.ray_version}-py{python}{'-gpu' if gpu else ''}"
