"""This machine as nodes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import psutil

from stoker.core.node import Node
from stoker.gpu.device import Device, visible
from stoker.gpu.driver import Driver
from stoker.hardware.accelerators import find_accelerator


def with_slots(nodes: Iterable[Node], replicas: int) -> list[Node]:
    """The same, as parts of one machine that runs so many replicas at a time."""
    return [replace(node, most_replicas=replicas, shares_machine=True) for node in nodes]


def this_machine(driver: Driver, visible_devices: str | None) -> list[Node]:
    """This machine as a node; as several, if it has GPUs of several types. `visible_devices`: CUDA_VISIBLE_DEVICES.

    A node with GPUs is named by their type, so that a GPU is on a node of the same name whichever others can be seen.
    """
    by_type: dict[str, list[Device]] = {}
    for device in visible(driver.devices(), visible_devices):
        accelerator = find_accelerator(device.product)
        by_type.setdefault(accelerator.name if accelerator else device.product.upper().replace(" ", "_"), []).append(
            device
        )
    types: Sequence[tuple[str, list[Device]]] = list(by_type.items()) or [("", [])]
    return [
        Node(
            name=f"local-{name.lower()}" if name else "local",
            engine="local",
            zone="local",
            accelerator=name,
            devices=tuple(device.uuid for device in devices),
            vcpus=float(os.cpu_count() or 1),
            memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
            soft=True,
        )
        for name, devices in types
    ]
