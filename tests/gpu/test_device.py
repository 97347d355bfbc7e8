"""Which GPUs are ours to give out."""

from __future__ import annotations

import pytest

from stoker.engines.local.machine import this_machine
from stoker.gpu.device import visible
from stoker.gpu.drivers.fake import FakeDriver

DEVICES = FakeDriver("Tesla T4", "Tesla T4", "Tesla T4").devices()


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        ("GPU-fake-1", [1]),
        ("0,7,1", [0]),
        ("-1", []),
        ("1,1", [1]),
    ],
)
def test_cuda_visible_devices_is_respected_as_cuda_reads_it(setting: str | None, found: list[int]) -> None:
    assert [device.index for device in visible(DEVICES, setting)] == found


def test_a_machine_with_gpus_is_a_node_with_its_devices_by_uuid() -> None:
    (node,) = this_machine(FakeDriver("Tesla T4", "Tesla T4"), None)
    assert (node.name, node.accelerator, node.devices, node.soft) == (
        "local-nvidia_tesla_t4",
        "NVIDIA_TESLA_T4",
        ("GPU-fake-0", "GPU-fake-1"),
        True,
    )


def test_gpus_of_two_types_are_two_nodes() -> None:
    nodes = this_machine(FakeDriver("NVIDIA H200", "Tesla T4", "NVIDIA H200"), None)
    assert [(node.name, node.accelerator, len(node.devices)) for node in nodes] == [
        ("local-nvidia_h200_141gb", "NVIDIA_H200_141GB", 2),
        ("local-nvidia_tesla_t4", "NVIDIA_TESLA_T4", 1),
    ]


def test_a_gpu_that_is_in_no_table_keeps_its_own_name() -> None:
    (node,) = this_machine(FakeDriver("NVIDIA Future X1"), None)
    assert node.accelerator == "NVIDIA_FUTURE_X1"


def test_a_machine_without_gpus_is_a_node_all_the_same() -> None:
    (node,) = this_machine(FakeDriver(), None)
    assert (node.accelerator, node.devices) == ("", ()) and node.vcpus >= 1
