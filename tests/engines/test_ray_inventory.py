"""Ray's nodes as Stoker's: values in, values out."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.core.node import Node, NodeState
from stoker.engines.ray.engine import is_loopback
from stoker.engines.ray.inventory import nodes_of


def a_row(**changed: Any) -> dict[str, Any]:
    """A node as `ray.nodes()` tells it."""
    return {
        "NodeID": "1a2b3c4d5e6f",
        "Alive": True,
        "NodeManagerAddress": "10.0.0.5",
        "NodeManagerPort": 4000,
        "Resources": {"CPU": 16.0, "GPU": 4.0, "memory": 60 * 2.0**30, "accelerator_type:T4": 1.0},
        "Labels": {},
        **changed,
    }


def test_a_node_is_what_ray_says_of_it() -> None:
    labels = {
        "ray.io/availability-region": "us-west1",
        "ray.io/availability-zone": "us-west1-a",
        "stoker.io/machine-type": "n1-standard-16",
    }
    assert nodes_of([a_row(Labels=labels)], 30.0) == (
        Node(
            name="10.0.0.5-1a2b3c4d",
            engine="ray",
            region="us-west1",
            zone="us-west1-a",
            machine="n1-standard-16",
            accelerator="NVIDIA_TESLA_T4",
            devices=("0", "1", "2", "3"),
            vcpus=16.0,
            memory_gb=60.0,
            most_replicas=480,
            lease_seconds=30.0,
        ),
    )


@pytest.mark.parametrize(
    ("resources", "labels", "accelerator"),
    [
        ({"GPU": 1.0}, {"ray.io/accelerator-type": "H100"}, "NVIDIA_H100_80GB"),
        ({"GPU": 1.0, "accelerator_type:A100": 1.0}, {}, "NVIDIA_TESLA_A100"),
        ({"GPU": 1.0}, {"ray.io/accelerator-type": "X9000"}, "X9000"),
        ({"GPU": 1.0}, {}, "GPU"),
        ({"CPU": 1.0}, {"ray.io/accelerator-type": "T4"}, ""),
    ],
)
def test_accelerators_have_our_names(resources: dict[str, float], labels: dict[str, str], accelerator: str) -> None:
    (node,) = nodes_of([a_row(Resources=resources, Labels=labels)], 30.0)
    assert node.accelerator == accelerator


def test_what_is_gone_or_gives_nothing_is_no_node() -> None:
    assert nodes_of([a_row(Alive=False), a_row(Resources={"memory": 1.0, "CPU": 0.0})], 30.0) == ()


def test_one_that_has_come_back_is_another() -> None:
    first, second = nodes_of([a_row()], 30.0), nodes_of([a_row(NodeID="ffffffffffff")], 30.0)
    assert first[0].name != second[0].name


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("127.0.0.3", True), ("::1", True), ("localhost", True), ("10.0.0.5", False), ("gpu-1", False)],
)
def test_what_only_this_machine_can_reach(host: str, is_ours: bool) -> None:
    assert is_loopback(host) == is_ours


@pytest.mark.parametrize(
    ("told", "state", "leaving_at"),
    [
        ({}, NodeState.UP, None),
        ({"DrainedByMs": 1_760_003_600_500}, NodeState.UP, 1_760_003_600.5),
        ({"DrainedByMs": 0}, NodeState.DRAINING, None),
    ],
)
def test_what_ray_drains_has_to_be_empty_by_then(
    told: dict[str, int], state: NodeState, leaving_at: float | None
) -> None:
    (node,) = nodes_of([a_row(**told)], 30.0)
    assert (node.state, node.leaving_at) == (state, leaving_at)
