"""Declared nodes."""

from __future__ import annotations

import pytest

from stoker.core.errors import BadSpec
from stoker.engines.virtual import declared_nodes


def test_the_documents_cluster() -> None:
    nodes = declared_nodes("10x4xT4, 3xn1-highmem-8", "local")
    assert [node.name for node in nodes] == [f"virtual-{n}" for n in range(13)]
    assert all((n.accelerator, len(n.devices), n.virtual) == ("NVIDIA_TESLA_T4", 4, True) for n in nodes[:10])
    assert all((n.machine, n.vcpus, n.memory_gb, n.devices) == ("n1-highmem-8", 8.0, 52.0, ()) for n in nodes[10:])


def test_a_gpu_node_is_the_largest_host_that_may_carry_so_many() -> None:
    (t4,) = declared_nodes("1x4xT4", "local")
    (v100,) = declared_nodes("1x8xnvidia-tesla-v100", "local")
    assert (t4.vcpus, t4.memory_gb) == (96.0, 624.0)
    assert (v100.vcpus, v100.memory_gb) == (96.0, 624.0)


def test_a_machine_with_gpus_built_in_has_them() -> None:
    (a2,) = declared_nodes("1xa2-highgpu-8g", "local")
    (legacy,) = declared_nodes("1xcomplex_model_m_gpu", "local")
    assert (a2.accelerator, len(a2.devices)) == ("NVIDIA_TESLA_A100", 8)
    assert (legacy.accelerator, len(legacy.devices)) == ("NVIDIA_TESLA_K80", 4)


def test_modern_gpus_can_be_declared() -> None:
    (node,) = declared_nodes("1x8xH100", "local")
    assert (node.accelerator, len(node.devices)) == ("NVIDIA_H100_80GB", 8)


def test_nothing_declared_is_nothing() -> None:
    assert declared_nodes("", "local") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4T4", "10x4xT4"),
        ("0x4xT4", "1 to"),
        ("99999x4xT4", "1 to"),
        ("1x4xT5", "no accelerator"),
        ("1x999xT4", "more than any"),
        ("1xn1-nonsense", "no machine type"),
        ("x", "10x4xT4"),
    ],
)
def test_what_cannot_be_declared_is_said(text: str, words: str) -> None:
    with pytest.raises(BadSpec, match=words):
        declared_nodes(f"1x1xT4,{text}", "local")
