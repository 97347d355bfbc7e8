"""Cluster files in the hands of Ray's own code, as far as it asks no cloud: schema, defaults, and what its autoscaler orders."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from stoker.engines.ray.accelerator_names import RAY_NAMES, ray_name
from stoker.engines.ray.clusters.node_types import labels, resources
from stoker.hardware.accelerators import accelerators, find_accelerator
from tests.engines.cluster_files import a_site, rendered

ray = pytest.importorskip("ray")

LAUNCHED = ["aws", "azure", "gcp"]


@pytest.mark.parametrize("provider", LAUNCHED)
def test_ray_takes_the_file(provider: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    content = rendered(provider)
    prepared = prepare_config(content)
    validate_config(prepared)
    assert prepared["available_node_types"] == content["available_node_types"]
    defaults = {key: prepared[key] for key in prepared.keys() - content.keys()}
    assert not defaults, "Ray's examples fill what we do not say"


@pytest.mark.parametrize("provider", [*LAUNCHED, "kuberay"])
def test_the_autoscaler_sees_the_pools(provider: str) -> None:
    found = _node_types(provider)
    assert found.keys() - {"ray_head", "headgroup"} == a_site().pools.keys()
    for name, pool in a_site().pools.items():
        seen = found[name]
        assert (seen.min_worker_nodes, seen.max_worker_nodes) == (pool.least, pool.most)
        assert seen.resources == resources(pool)
        assert seen.labels == labels(pool, pool.zone)


@pytest.mark.parametrize("provider", [*LAUNCHED, "kuberay"])
def test_machines_are_ordered_by_the_name_of_their_pool(provider: str) -> None:
    """Twelve of t4x4 at once, beside the one of cpu8 that is there all the time, and nothing else."""
    assert _ordered(provider, [{"stoker-pool-t4x4": 1.0}] * 12) == {"t4x4": 12, "cpu8": 1}
    both = [{"stoker-pool-cpu8": 1.0}] * 6 + [{"stoker-pool-spot-v100": 1.0}] * 2
    assert _ordered(provider, both) == {"cpu8": 6, "spot-v100": 2}
    whole = {"CPU": 16.0, "GPU": 4.0, "memory": 14.4 * 2**30, "accelerator_type:T4": 0.001}
    assert _ordered(provider, [whole] * 3) == {"t4x4": 3, "cpu8": 1}


def test_how_long_machines_stay() -> None:
    from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig

    for content in (rendered("gcp"), _of_kubernetes()):
        assert AutoscalingConfig(content, skip_content_hash=True).get_idle_timeout_s() == 600.0
    assert _of_kubernetes()["max_workers"] == 22


@pytest.mark.parametrize("provider", LAUNCHED)
def test_ray_start_knows_every_flag(provider: str) -> None:
    """And keeps its own ports out of those that it gives to workers."""
    from ray.scripts.scripts import start

    content = rendered(provider)
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        words = shlex.split(content[key][1].partition("ray start ")[2])
        given = start.make_context("start", words).params
        lowest, highest = given["min_worker_port"], given["max_worker_port"]
        own = {name: value for name, value in given.items() if name.endswith("_port") and "worker" not in name}
        assert not {name for name, value in own.items() if value and lowest <= int(value) <= highest}
        assert given["disable_usage_stats"] is True
        assert given["head"] is (key == "head_start_ray_commands")


def test_google_is_asked_for_what_its_api_has() -> None:
    """By the description of Compute Engine's API that comes with Google's client."""
    from ray.autoscaler._private.gcp.node import GCPCompute

    compute = GCPCompute(None, "my-project", "us-west1-a", "stoker")
    described = json.loads(
        (files("googleapiclient") / "discovery_cache" / "documents" / "compute.v1.json").read_text(encoding="utf-8")
    )["schemas"]
    for name, node_type in rendered("gcp", service_account="a@b")["available_node_types"].items():
        body = compute._convert_resources_to_urls(node_type["node_config"])
        assert not list(_against(body, described["Instance"], described, name))
    t4x4 = compute._convert_resources_to_urls(rendered("gcp")["available_node_types"]["t4x4"]["node_config"])
    assert t4x4["machineType"] == "zones/us-west1-a/machineTypes/n1-highcpu-16"
    (attached,) = t4x4["guestAccelerators"]
    assert attached["acceleratorType"] == "projects/my-project/zones/us-west1-a/acceleratorTypes/nvidia-tesla-t4"
    wrong = {"machineType": "n1-standard-8", "disks": [{"boots": True}], "scheduling": {"provisioningModel": "CHEAP"}}
    assert list(_against(wrong, described["Instance"], described, "x")) == [
        "x.disks.boots: no such field",
        "x.scheduling.provisioningModel: 'CHEAP' is none of its values",
    ]


def test_azure_is_asked_for_what_rays_template_has() -> None:
    template = Path(ray.__file__).parent / "autoscaler" / "_private" / "_azure" / "azure-vm-template.json"
    known = json.loads(template.read_text(encoding="utf-8"))["parameters"]
    kinds = {"string": str, "int": int, "object": dict}
    for node_type in rendered("azure")["available_node_types"].values():
        asked = dict(node_type["node_config"]["azure_arm_parameters"])
        asked.pop("availability_zone")  # Ray's provider makes `zones` of it
        assert asked.keys() <= known.keys()
        assert all(isinstance(value, kinds[known[name]["type"]]) for name, value in asked.items())


def test_accelerators_have_rays_names() -> None:
    from ray.util.accelerators import accelerators as of_ray

    known = {value for name, value in vars(of_ray).items() if name.isupper() and isinstance(value, str)}
    assert set(RAY_NAMES.values()) <= known
    assert RAY_NAMES.keys() <= accelerators().keys()
    for accelerator in accelerators():
        back = find_accelerator(ray_name(accelerator))
        assert back is not None and back.name == accelerator


def _of_kubernetes() -> dict[str, Any]:
    """What Ray's code in a pod of the head makes of the RayCluster."""
    from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr

    found: dict[str, Any] = _derive_autoscaling_config_from_ray_cr(rendered("kuberay"))
    return found


def _node_types(provider: str) -> Mapping[str, Any]:
    from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig

    content = _of_kubernetes() if provider == "kuberay" else rendered(provider)
    found: Mapping[str, Any] = AutoscalingConfig(content, skip_content_hash=True).get_node_type_configs()
    return found


def _ordered(provider: str, bundles: list[dict[str, float]]) -> dict[str, int]:
    """The machines that Ray's autoscaler orders for `request_resources(bundles=...)`, when nothing but the head is there."""
    from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
    from ray.autoscaler.v2.utils import ResourceRequestUtil
    from ray.core.generated.autoscaler_pb2 import ClusterResourceConstraint

    asked = ResourceRequestUtil.group_by_count([ResourceRequestUtil.make(bundle) for bundle in bundles])
    reply = ResourceDemandScheduler().schedule(
        SchedulingRequest(
            disable_launch_config_check=True,
            node_type_configs=dict(_node_types(provider)),
            max_num_nodes=23,
            cluster_resource_constraints=[ClusterResourceConstraint(resource_requests=asked)],
        )
    )
    assert not reply.infeasible_cluster_resource_constraints
    return {launch.instance_type: launch.count for launch in reply.to_launch if "head" not in launch.instance_type}


def _against(value: Any, schema: Mapping[str, Any], all_schemas: Mapping[str, Any], where: str) -> Iterator[str]:
    """What a schema of Google's has against a value."""
    schema = all_schemas[schema["$ref"]] if "$ref" in schema else schema
    if schema["type"] == "object":
        for key, inner in value.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if below is None:
                yield f"{where}.{key}: no such field"
            else:
                yield from _against(inner, below, all_schemas, f"{where}.{key}")
    elif schema["type"] == "array":
        for inner in value:
            yield from _against(inner, schema["items"], all_schemas, where)
    elif not isinstance(
        value, {"string": (str, int), "boolean": bool, "integer": int}[schema["type"]]
    ):  # int64 is a text
        yield f"{where}: is no {schema['type']}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of its values"
