"""Nodes that are declared, not there: `10x4xT4,3xn1-highmem-8` is ten nodes of four T4 and three of a machine type."""

from __future__ import annotations

import re
from dataclasses import replace

from stoker.core.errors import BadSpec, Violation
from stoker.core.node import Node
from stoker.hardware.accelerators import find_accelerator
from stoker.hardware.limits import limits
from stoker.hardware.machines import find_machine_type

ZONE = "virtual"
MOST_NODES = 10_000
_PART = re.compile(r"(\d+)x(?:(\d+)x)?([A-Za-z0-9_-]+)")
_HOST_OF_OTHERS = (96.0, 624.0)  # vCPUs and GB of a node whose accelerator has no rule of its own


def declared_nodes(text: str, engine: str) -> list[Node]:
    """The nodes that a declaration stands for. Raises BadSpec with everything that is wrong with it."""
    nodes: list[Node] = []
    violations: list[Violation] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None:
            violations.append(
                _wrong(part, "not COUNTxMACHINE_TYPE or COUNTxGPUSxGPU, such as 3xn1-highmem-8 or 10x4xT4")
            )
            continue
        count, gpus, name = int(match[1]), int(match[2] or 0), match[3]
        node = _gpu_node(name, gpus, engine) if gpus else _machine_node(name, engine)
        if isinstance(node, str):
            violations.append(_wrong(part, node))
        elif not 1 <= count <= MOST_NODES - len(nodes):
            violations.append(_wrong(part, f"1 to {MOST_NODES} nodes can be declared"))
        else:
            first = len(nodes)
            nodes += [_named(node, f"virtual-{first + n}") for n in range(count)]
    if violations:
        raise BadSpec(violations)
    return nodes


def _gpu_node(name: str, gpus: int, engine: str) -> Node | str:
    """The largest host that may carry so many of these GPUs."""
    accelerator = find_accelerator(name)
    if accelerator is None:
        return f"no accelerator {name!r}; stoker accelerators lists them"
    if gpus > 64:
        return f"{gpus} GPUs on one node are more than any has"
    rules = [limit for limit in limits(accelerator.name) if limit.count >= gpus]
    vcpus, memory_gb = (rules[0].max_vcpus, rules[0].max_memory_gb) if rules else _HOST_OF_OTHERS
    return _node(engine, "", accelerator.name, gpus, vcpus, memory_gb)


def _machine_node(name: str, engine: str) -> Node | str:
    machine = find_machine_type(name)
    if machine is None:
        return f"no machine type {name!r}; stoker machines lists them"
    count = int(machine.accelerator_count)
    return _node(engine, name, machine.accelerator if count else "", count, machine.vcpus, machine.memory_gb)


def _node(engine: str, machine: str, accelerator: str, count: int, vcpus: float, memory_gb: float) -> Node:
    return Node(
        name="",
        engine=engine,
        zone=ZONE,
        machine=machine,
        accelerator=accelerator,
        devices=tuple(map(str, range(count))),
        vcpus=vcpus,
        memory_gb=memory_gb,
        virtual=True,
    )


def _named(node: Node, name: str) -> Node:
    return replace(node, name=name)


def _wrong(part: str, why: str) -> Violation:
    return Violation("fake", f"{part!r}: {why}")
