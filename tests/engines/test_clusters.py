"""Cluster files: what becomes of pools, and what cannot be said to a cloud."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from stoker.core.copies import replace
from stoker.core.errors import BadSpec
from stoker.core.node import Node, replicas_by_memory
from stoker.core.site import Site
from stoker.engines.ray.clusters.node_types import labels, resources
from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from stoker.engines.ray.inventory import nodes_of
from stoker.registry import MEMBERS, load
from tests.engines.cluster_files import FLAGS, a_site, golden, rendered, site_for, text_for

PROVIDERS = sorted(MEMBERS["clusters"])
LAUNCHED = [provider for provider in PROVIDERS if provider != "kuberay"]


def with_pools(provider: str, **changes: dict[str, Any]) -> Site:
    """The site, with some of its pools changed: `t4x4={"zone": ""}`."""
    site = site_for(provider)
    pools = {name: replace(pool, **changes.get(name.replace("-", "_"), {})) for name, pool in site.pools.items()}
    return replace(site, pools=pools)


def why_not(provider: str, site: Site | None = None, **said: Any) -> str:
    """What is said instead of a file."""
    with pytest.raises(BadSpec) as refused:
        rendered(provider, site, **said)
    return f"{refused.value.message} → {refused.value.fix}"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_file_is_as_it_was(provider: str) -> None:
    assert text_for(provider) == golden(provider).read_text(encoding="utf-8")
    assert yaml.safe_load(text_for(provider)) == rendered(provider)


def test_the_machine_of_the_documents_on_google_cloud() -> None:
    assert rendered("gcp")["available_node_types"]["t4x4"] == {
        "min_workers": 0,
        "max_workers": 12,
        "resources": {"CPU": 16, "GPU": 4, "memory": 15461882266, "accelerator_type:T4": 1, "stoker-pool-t4x4": 1},
        "labels": {
            "stoker.io/pool": "t4x4",
            "stoker.io/machine-type": "n1-highcpu-16",
            "ray.io/accelerator-type": "T4",
            "ray.io/availability-region": "us-west1",
            "ray.io/availability-zone": "us-west1-a",
            "ray.io/market-type": "on-demand",
        },
        "node_config": {
            "machineType": "n1-highcpu-16",
            "guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 4}],
            "scheduling": {"automaticRestart": False, "onHostMaintenance": "TERMINATE"},
            "metadata": {"items": [{"key": "install-nvidia-driver", "value": "True"}]},
            "disks": [
                {
                    "boot": True,
                    "autoDelete": True,
                    "type": "PERSISTENT",
                    "initializeParams": {
                        "sourceImage": "projects/deeplearning-platform-release/global/images/family/"
                        "common-cu129-ubuntu-2204-nvidia-580",
                        "diskSizeGb": 200,
                        "diskType": "zones/us-west1-a/diskTypes/pd-balanced",
                    },
                }
            ],
        },
        "initialization_commands": ["timeout 900 bash -c 'until nvidia-smi; do sleep 5; done'"],
    }


def test_a_node_of_a_pool_is_the_node_that_stoker_was_told() -> None:
    pool = a_site().pools["t4x4"]
    row = {
        "NodeID": "1a2b3c4d5e6f",
        "Alive": True,
        "NodeManagerAddress": "10.0.0.5",
        "Resources": resources(pool),
        "Labels": labels(pool, pool.zone),
    }
    assert nodes_of([row], 30.0) == (
        Node(
            name="10.0.0.5-1a2b3c4d",
            engine="ray",
            region=pool.region,
            zone=pool.zone,
            machine=pool.machine,
            accelerator=pool.accelerator,
            devices=("0", "1", "2", "3"),
            vcpus=pool.vcpus,
            memory_gb=pool.memory_gb,
            most_replicas=replicas_by_memory(pool.memory_gb),
            lease_seconds=30.0,
        ),
    )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_tells_the_same_of_a_pool(provider: str) -> None:
    """Also where a larger machine stands for it, whose own resources nobody was told."""
    content = rendered(provider)
    pool = a_site().pools["spot-v100"]
    if provider == "kuberay":
        (told,) = [group for group in content["spec"]["workerGroupSpecs"] if group["groupName"] == pool.name]
        assert told["resources"] == {name: str(amount) for name, amount in resources(pool).items()}
    else:
        told = content["available_node_types"][pool.name]
        assert told["resources"] == resources(pool)
    assert told["labels"] == labels(pool, "us-west1-a")
    assert told["labels"]["ray.io/market-type"] == "spot"


@pytest.mark.parametrize("provider", LAUNCHED)
def test_what_all_files_of_the_launcher_have(provider: str) -> None:
    content = rendered(provider)
    assert (content["max_workers"], content["idle_timeout_minutes"], content["cluster_name"]) == (22, 10.0, "stoker")
    head = content["available_node_types"][content["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert content["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}
    assert content["provider"]["cache_stopped_nodes"] is False
    for start in (content["head_start_ray_commands"][1], content["worker_start_ray_commands"][1]):
        for name, value in {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", **HEALTH_ENVIRONMENT}.items():
            assert f" {name}={value}" in start
        assert "--disable-usage-stats" in start
    assert "'ray[default]==2.60.0'" in " ".join(content["setup_commands"])
    assert "--python 3.11.7 " in " ".join(content["setup_commands"])


@pytest.mark.parametrize("provider", LAUNCHED)
def test_what_one_may_say_instead(provider: str) -> None:
    image = {"azure": "a:b:c:d"}.get(provider, "an-image")
    content = rendered(provider, image=image, head="a-type", disk_gb=77, ray_version="2.61.0", python_version="3.12.1")
    head = str(content["available_node_types"]["ray_head"]["node_config"])
    assert "a-type" in head and "77" in head
    assert content["available_node_types"].keys() == {"ray_head", "t4x4", "cpu8", "spot-v100"}
    for node_type in content["available_node_types"].values():
        assert ("'d'" if provider == "azure" else "an-image") in str(node_type["node_config"])
    assert "2.61.0" in str(content["setup_commands"]) and "3.12.1" in str(content["setup_commands"])


def test_spot_machines_on_each_cloud() -> None:
    def spot(provider: str) -> dict[str, Any]:
        found: dict[str, Any] = rendered(provider)["available_node_types"]["spot-v100"]["node_config"]
        return found

    assert spot("gcp")["scheduling"] == {
        "automaticRestart": False,
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
    }
    assert spot("aws")["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert spot("azure")["azure_arm_parameters"]["priority"] == "Spot"
    (group,) = [g for g in rendered("kuberay")["spec"]["workerGroupSpecs"] if g["groupName"] == "spot-v100"]
    assert group["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"


def test_the_machines_of_other_clouds_are_the_cheapest_that_do() -> None:
    types = rendered("aws")["available_node_types"]
    assert {name: found["node_config"]["InstanceType"] for name, found in types.items()} == {
        "ray_head": "m5.xlarge",
        "t4x4": "g4dn.12xlarge",
        "cpu8": "m5.2xlarge",
        "spot-v100": "p3.2xlarge",
    }
    types = rendered("azure")["available_node_types"]
    assert {name: found["node_config"]["azure_arm_parameters"]["vmSize"] for name, found in types.items()} == {
        "ray_head": "Standard_D4s_v3",
        "t4x4": "Standard_NC64as_T4_v3",
        "cpu8": "Standard_D8s_v3",
        "spot-v100": "Standard_NC6s_v3",
    }


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_a_machine_that_no_table_has_is_asked_for(provider: str) -> None:
    assert "pools.cpu8: needs `instance" in why_not(provider, with_pools(provider, cpu8={"instance": ""}))
    too_large = why_not(provider, with_pools(provider, t4x4={"vcpus": 96.0}))
    assert "is known to have 4 x NVIDIA_TESLA_T4, 96 vCPUs" in too_large and "too small" in too_large
    own = with_pools(provider, t4x4={"vcpus": 96.0, "instance": "one-of-theirs"})
    assert "one-of-theirs" in str(rendered(provider, own)["available_node_types"]["t4x4"]["node_config"])


def test_google_cloud_needs_a_project_and_one_zone() -> None:
    assert "--project-id: is needed" in why_not("gcp", project_id="")
    two = with_pools("gcp", cpu8={"zone": "us-west1-b"})
    assert "the pools are in us-west1-a and us-west1-b" in why_not("gcp", two)
    assert "--zone us-west1-a" in why_not("gcp", two)
    assert list(rendered("gcp", two, zone="us-west1-b")["available_node_types"]) == ["ray_head", "cpu8"]
    assert "no pool is in us-west1-c" in why_not("gcp", two, zone="us-west1-c")
    assert "is not a zone of Google's" in why_not("gcp", zone="us-west-2a")
    anywhere = with_pools("gcp", **{name: {"zone": ""} for name in ("t4x4", "cpu8", "spot_v100")})
    assert "name it, such as us-west1-a" in why_not("gcp", anywhere)
    assert "us-west1-c has no NVIDIA_TESLA_T4" in why_not("gcp", anywhere, zone="us-west1-c")
    chosen = rendered("gcp", anywhere, zone="us-west1-b")
    assert chosen["provider"] == {
        "type": "gcp",
        "region": "us-west1",
        "availability_zone": "us-west1-b",
        "project_id": "my-project",
        "cache_stopped_nodes": False,
    }
    assert chosen["available_node_types"]["t4x4"]["labels"]["ray.io/availability-zone"] == "us-west1-b"
    elsewhere = with_pools("gcp", cpu8={"zone": "", "region": "europe-west4"})
    assert "pools.cpu8: is in europe-west4, others are in us-west1-a" in why_not("gcp", elsewhere)


def test_gpus_that_are_built_in_are_not_attached_again() -> None:
    site = a_site('[pools.a]\nmachine_type = "a2-highgpu-1g"\nzone = "us-central1-a"\nmax = 1\n')
    found = rendered("gcp", site)["available_node_types"]["a"]
    assert "guestAccelerators" not in found["node_config"]
    assert found["node_config"]["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert (found["resources"]["GPU"], found["labels"]["ray.io/accelerator-type"]) == (1, "A100")


def test_a_shape_of_ones_own_has_no_name_on_google_cloud() -> None:
    own = with_pools("gcp", t4x4={"machine": ""})
    assert "pools.t4x4: has no `machine_type`" in why_not("gcp", own)
    named = with_pools("gcp", t4x4={"machine": "", "instance": "n1-custom-16-14848"})
    found = rendered("gcp", named)["available_node_types"]["t4x4"]
    assert found["node_config"]["machineType"] == "n1-custom-16-14848"
    assert "stoker.io/machine-type" not in found["labels"]


def test_a_service_account_is_for_the_machines_of_jobs() -> None:
    types = rendered("gcp", service_account="train@my-project.iam.gserviceaccount.com")["available_node_types"]
    assert types["t4x4"]["node_config"]["serviceAccounts"][0]["email"] == "train@my-project.iam.gserviceaccount.com"
    assert "serviceAccounts" not in types["ray_head"]["node_config"]  # Ray gives the head its own


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_another_clouds_region_has_to_be_said(provider: str) -> None:
    assert "the pools are in us-west1, which is Google's" in why_not(provider, region="")
    several = with_pools(provider, cpu8={"region": "europe-west4", "zone": ""})
    assert "the pools are in europe-west4 and us-west1" in why_not(provider, several)
    assert "--pool NAME" in why_not(provider, with_pools(provider, cpu8={"zone": "us-west1-b"}))


def test_zones_of_aws_are_the_clusters() -> None:
    there = {"region": "us-west-2", "zone": "us-west-2a"}
    site = with_pools("aws", t4x4=there, cpu8={"region": "us-west-2", "zone": ""}, spot_v100=there)
    found = rendered("aws", site, region="")
    assert found["provider"] == {
        "type": "aws",
        "region": "us-west-2",
        "availability_zone": "us-west-2a",
        "cache_stopped_nodes": False,
    }
    assert found["available_node_types"]["cpu8"]["labels"]["ray.io/availability-zone"] == "us-west-2a"
    two = with_pools("aws", t4x4=there, cpu8={**there, "zone": "us-west-2b"}, spot_v100=there)
    assert "Ray has one for all pools on AWS" in why_not("aws", two, region="")
    assert list(rendered("aws", two, region="", zone="us-west-2b")["available_node_types"]) == ["ray_head", "cpu8"]
    assert "eu-west-1a is not in us-west-2" in why_not("aws", zone="eu-west-1a")
    assert "availability_zone" not in rendered("aws")["provider"]


def test_zones_of_azure_are_the_pools() -> None:
    there = {"region": "westus2", "zone": "1"}
    site = with_pools("azure", t4x4=there, cpu8={**there, "zone": "2"}, spot_v100={"region": "westus2", "zone": ""})
    types = rendered("azure", site, region="")["available_node_types"]
    assert {
        name: found["node_config"]["azure_arm_parameters"]["availability_zone"] for name, found in types.items()
    } == {
        "ray_head": "none",
        "t4x4": "1",
        "cpu8": "2",
        "spot-v100": "auto",
    }
    assert "its zone is b" in why_not(
        "azure", with_pools("azure", t4x4={**there, "zone": "b"}), region="westus2", zone="b"
    )


def test_an_image_of_azure() -> None:
    own = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/images/i"
    parameters = rendered("azure", image=own)["available_node_types"]["t4x4"]["node_config"]["azure_arm_parameters"]
    assert parameters["imageId"] == own and "imageSku" not in parameters
    assert "PUBLISHER:OFFER:PLAN:VERSION" in why_not("azure", image="ubuntu")


def test_pods_of_kubernetes_find_machines() -> None:
    by_pool = rendered("kuberay", select_by="pool")["spec"]["workerGroupSpecs"][0]
    assert by_pool["template"]["spec"]["nodeSelector"] == {"stoker.io/pool": "t4x4"}
    own = with_pools("kuberay", t4x4={"machine": ""})
    assert "--select-by pool" in why_not("kuberay", own)
    of_another_cloud = with_pools("kuberay", t4x4={"instance": "g4dn.12xlarge", "region": "us-west-2", "zone": ""})
    group = rendered("kuberay", of_another_cloud)["spec"]["workerGroupSpecs"][0]
    assert group["template"]["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "g4dn.12xlarge"}
    renamed = a_site().pools["cpu8"]
    taken = replace(a_site(), pools={"headgroup": replace(renamed, name="headgroup")})
    assert "give the pool another name" in why_not("kuberay", taken)


def test_a_pod_leaves_room_on_its_machine_and_for_no_second() -> None:
    for group in rendered("kuberay")["spec"]["workerGroupSpecs"]:
        pool = a_site().pools[group["groupName"]]
        asked = group["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert 0.5 < float(asked["cpu"].removesuffix("m")) / 1000 / pool.vcpus < 1
        assert 0.5 < float(asked["memory"].removesuffix("Mi")) / 1024 / pool.memory_gb < 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_takes_options_that_there_are(provider: str) -> None:
    member = load("clusters", provider)
    assert member.takes >= FLAGS[provider].keys()
    with pytest.raises(TypeError):
        rendered(provider, nonsense=1)
