"""What a site has done, as its server tells it (`GET /stoker/v1/history`), made ready to be replayed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.core.errors import NotFound
from stoker.core.job import Job, Request
from stoker.core.node import Node
from stoker.core.site import Backfill, Preemption, Queue, Quota, Site, Victims
from stoker.core.spec import Group, JobSpec, Machine, Program
from stoker.hardware.accelerators import find_accelerator

from .cluster import ENGINE, FOR_EVER, PATIENT

NEVER_RAN = "ended or wait without having run"
_REQUEST = Request(dialect="history", body="{}")
_PROGRAM = Program(command=("simulated",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job as it was: it ran for so long, and ended then."""

    job: Job  # to be submitted again
    run_seconds: float  # for which it held machines
    ended_at: float | None  # in seconds since the zero; None: it still runs

    @property
    def wait_seconds(self) -> float | None:
        """How long it in fact held no machine between submission and end."""
        return None if self.ended_at is None else self.ended_at - self.job.submitted_at - self.run_seconds

    @property
    def gpu_hours(self) -> float:
        """What it used."""
        return self.job.spec.accelerator_milli / 1000 * self.run_seconds / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a site has done, counted in seconds from its first submission on."""

    zero: float  # that moment, in seconds since the epoch
    jobs: Sequence[PastJob]  # in the order of submission
    nodes: Sequence[Node]
    site: Site
    left_out: Mapping[str, int]  # why jobs are left out, and how many
    is_whole: bool  # whether there were no more jobs in that time


def past(answer: Mapping[str, Any]) -> Past:
    """Read the answer of a server. Raises NotFound where nothing has run."""
    ran = [row for row in answer["jobs"] if row["held_seconds"] > 0]
    if not ran:
        raise NotFound(
            "no job of this site has run in that time, so there is nothing to replay", fix="ask for longer: --last 90d"
        )
    zero = min(row["submitted_at"] for row in ran)
    jobs = sorted((_job(row, zero) for row in ran), key=lambda found: (found.job.submitted_at, found.job.id))
    idle = len(answer["jobs"]) - len(ran)
    return Past(
        zero=zero,
        jobs=jobs,
        nodes=[_node(row) for row in answer["nodes"]],
        site=site_of(answer["site"]),
        left_out={NEVER_RAN: idle} if idle else {},
        is_whole=answer["is_whole"],
    )


def site_of(values: Mapping[str, Any]) -> Site:
    """A site out of its values, as `asdict` gives them."""
    queues = {name: _queue(queue) for name, queue in values["queues"].items()}
    preemption = values["preemption"]
    return Site(
        **{
            **values,
            "queues": queues,
            "backfill": Backfill(values["backfill"]),
            "preemption": Preemption(**{**preemption, "victims": Victims(preemption["victims"])}),
        }
    )


def _queue(values: Mapping[str, Any]) -> Queue:
    return Queue(**{**values, "quotas": {name: Quota(**quota) for name, quota in values["quotas"].items()}})


def _node(row: Mapping[str, Any]) -> Node:
    devices = tuple(map(str, range(row["accelerators"])))
    kept = {key: row[key] for key in ("name", "region", "zone", "rack", "accelerator", "vcpus", "memory_gb", "soft")}
    return Node(engine=ENGINE, devices=devices, virtual=True, **kept)


def _job(row: Mapping[str, Any], zero: float) -> PastJob:
    groups = tuple(
        Group(role=group["role"], count=group["count"], machine=Machine(**{k: group[k] for k in _MACHINE}))
        for group in row["groups"]
    )
    spec = JobSpec(
        kind="simulated",
        program=_PROGRAM,
        groups=groups,
        limits=FOR_EVER,
        retry=PATIENT,
        **{key: row[key] for key in ("queue", "priority", "preemptible", "resumable", "region")},
    )
    job = Job(id=row["id"], spec=spec, request=_REQUEST, owner=row["owner"], submitted_at=row["submitted_at"] - zero)
    ended_at = None if row["ended_at"] is None else row["ended_at"] - zero
    return PastJob(job=job, run_seconds=row["held_seconds"], ended_at=ended_at)


_MACHINE = ("vcpus", "memory_gb", "accelerator", "accelerator_milli")


def changed(nodes: Sequence[Node], added: Sequence[Node], removed: str) -> list[Node]:
    """Nodes without some, and with others. What is not known of a new one is as it is on one like it. Raises NotFound."""
    found = without_nodes(nodes, removed)
    for number, new in enumerate(added):
        node = replace(new, accelerator=_accelerator(new.accelerator, nodes))
        like = next(
            (n for n in nodes if (n.accelerator, len(n.devices)) == (node.accelerator, len(node.devices))), node
        )
        found.append(replace(like, name=f"added-{number:04d}", devices=node.devices))
    return found


def without_nodes(nodes: Sequence[Node], text: str) -> list[Node]:
    """Nodes without those named, or without so many of a shape (2x4xT4), the last by name first. Raises NotFound."""
    left = list(nodes)
    for part in filter(None, (part.strip() for part in text.split(","))):
        count, matches = _which(part)
        going = [node for node in sorted(left, key=lambda n: n.name, reverse=True) if matches(node)][:count]
        if len(going) < count:
            there = f"there are {len(going)}" if count > 1 or going else "there is none"
            raise NotFound(f"cannot remove {part}: {there}", fix="stoker nodes lists the nodes")
        left = [node for node in left if node not in going]
    return left


def _which(part: str) -> tuple[int, Callable[[Node], bool]]:
    shape = re.fullmatch(r"([1-9]\d*)x(\d+)x([A-Za-z0-9_-]+)", part)
    if shape is None:
        return 1, lambda node: node.name == part
    gpus, accelerator = int(shape[2]), shape[3].lower()
    return int(shape[1]), lambda node: len(node.devices) == gpus and _is_called(node.accelerator, accelerator)


def _accelerator(text: str, nodes: Sequence[Node]) -> str:
    """The type that is meant: one that is there, or one of the catalog. Raises NotFound."""
    known = [node.accelerator for node in nodes if node.devices and _is_called(node.accelerator, text.lower())]
    found = find_accelerator(text)
    if not known and found is None:
        raise NotFound(f"no accelerator {text!r}", fix="stoker accelerators lists them")
    return known[0] if known or found is None else found.name


def _is_called(accelerator: str, text: str) -> bool:
    """Whether somebody means this type: its whole name, or the end of it, such as T4 for NVIDIA_TESLA_T4."""
    return f"_{accelerator.lower()}".endswith(f"_{text}")
