"""The nodes of a simulated cluster, and what the jobs of a trace ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.core.errors import BadSpec, Violation
from stoker.core.node import Node
from stoker.core.spec import ANY_ACCELERATOR, WHOLE_DEVICE_MILLI, Group, JobSpec, Limits, Machine, Program, Retry

from .trace import TraceJob, TraceNode

MOST_NODES = 100_000
MOST_GPUS_A_NODE = 64
ENGINE = "simulated"
_PART = re.compile(r"(\d+)x(\d+)x([A-Za-z0-9_-]+)")
FOR_EVER = Limits(running_seconds=1e15)
PATIENT = Retry(whole_job=100)
"""A job that has lost its machine so often is given up. Live jobs are given up sooner; a trace's run to their end."""
_PROGRAM = Program(command=("simulated",))


def nodes_of_text(text: str, option: str = "--nodes") -> list[Node]:
    """`80x8xV100,10x4xT4`: eighty nodes of eight V100, ten of four T4. Raises BadSpec with everything that is wrong."""
    shapes: list[TraceNode] = []
    violations: list[Violation] = []
    for part in (part.strip() for part in text.split(",")):
        match = _PART.fullmatch(part)
        if match is None:
            violations.append(Violation(option, f"{part!r} is not NODESxGPUSxTYPE, such as 80x8xV100"))
        elif int(match[1]) < 1 or int(match[2]) > MOST_GPUS_A_NODE:
            violations.append(Violation(option, f"{part!r}: at least 1 node, and at most {MOST_GPUS_A_NODE} GPUs each"))
        else:
            shapes.append(TraceNode(count=int(match[1]), gpus=int(match[2]), accelerator=match[3]))
    if sum(shape.count for shape in shapes) > MOST_NODES:
        violations.append(Violation(option, f"more than {MOST_NODES:,} nodes"))
    if violations:
        raise BadSpec(violations)
    return nodes_of(shapes)


def nodes_of(shapes: Iterable[TraceNode]) -> list[Node]:
    """The nodes one by one, named in their order. vCPUs and memory that a trace does not tell are without limit."""
    nodes: list[Node] = []
    for shape in shapes:
        for _ in range(shape.count):
            nodes.append(
                Node(
                    name=shape.name or f"node-{len(nodes):05d}",
                    engine=ENGINE,
                    zone="simulated",
                    accelerator=shape.accelerator if shape.gpus else "",
                    devices=tuple(map(str, range(shape.gpus))),
                    vcpus=shape.vcpus or 1e6,
                    memory_gb=shape.memory_gb or 1e6,
                    virtual=True,
                )
            )
    return nodes


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts the gangs of a trace into replicas for nodes of a size: whole nodes and a rest, as few as can be."""

    gpus_a_node: int

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Cutter:
        """For the largest of these nodes."""
        return cls(max((len(node.devices) for node in nodes), default=0))

    def groups(self, job: TraceJob) -> tuple[Group, ...]:
        """The roles of one job."""
        accelerator = "|".join(job.accelerators) or (ANY_ACCELERATOR if job.gpus_milli else "")
        parts = self._parts(job)
        total = sum(count * max(milli, 1) for _, count, milli in parts)

        def machine(milli: int) -> Machine:
            share = max(milli, 1) / total
            return Machine(
                vcpus=job.vcpus * share,
                memory_gb=job.memory_gb * share,
                accelerator=accelerator,
                accelerator_milli=milli,
            )

        return tuple(Group(role=role, count=count, machine=machine(milli)) for role, count, milli in parts)

    def _parts(self, job: TraceJob) -> list[tuple[str, int, int]]:
        """Role, how many, milli-GPU of each."""
        if job.nodes > 1 and job.gpus_milli % (job.nodes * WHOLE_DEVICE_MILLI) == 0:
            each = job.gpus_milli // job.nodes
            return [("chief", 1, each), ("worker", job.nodes - 1, each)]
        whole = self.gpus_a_node * WHOLE_DEVICE_MILLI
        if job.gpus_milli <= whole or not whole:
            return [("chief", 1, job.gpus_milli)]
        full, rest = divmod(job.gpus_milli, whole)
        parts = [("chief", 1, whole)]
        if full > 1:
            parts.append(("worker", full - 1, whole))
        if rest:
            parts.append(("evaluator", 1, rest))
        return parts

    def spec(self, job: TraceJob, groups: tuple[Group, ...], queue: str, *, resumable: bool) -> JobSpec:
        """What the job asks for."""
        return JobSpec(
            kind="simulated",
            program=_PROGRAM,
            groups=groups,
            queue=queue,
            priority=job.priority,
            resumable=resumable,
            limits=FOR_EVER,
            retry=PATIENT,
        )
