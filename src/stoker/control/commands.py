"""What users may do. Each command writes a wish and returns; the loop does the rest. No command calls an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.clock import Clock
from stoker.core.changes import Cancel, Change, Forget, NodeSeen, Relabel, Submit
from stoker.core.errors import NotReady, Violation
from stoker.core.ids import job_id
from stoker.core.images import StandIns, stand_in
from stoker.core.job import Job, Request
from stoker.core.node import Node
from stoker.core.spec import Group, JobSpec
from stoker.scheduling.decide import ever_fits
from stoker.scheduling.explain import nearest_shape, wanted
from stoker.scheduling.rules import Rules
from stoker.store.base import Listed, Store
from stoker.store.files import Files

REHEARSAL_POOL = "rehearsal/"
"""A pool of this prefix has nodes made for one job; they go when the job has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of the request that refusals are put on: each dialect has its own."""

    shape: str = "scale_tier"
    image: str = "master_config.image_uri"
    files: str = "package_uris"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands, with what they need."""

    store: Store
    files: Files
    rules: Rules
    clock: Clock
    images: StandIns = field(default_factory=dict)
    rehearsal_engine: str = "local"

    def submit(
        self,
        project: str,
        name: str,
        spec: JobSpec,
        *,
        request: Request,
        labels: Mapping[str, str],
        owner: str,
        rehearse: bool = False,
        fields: Fields = Fields(),
    ) -> Job:
        """Accept a job: when this returns, it is QUEUED and survives any crash.

        Raises NotReady for packages that cannot be read and for what no node could ever hold, AlreadyExists for a taken id.
        """
        job = job_id(project, name)
        if rehearse:
            spec = replace(spec, pool=REHEARSAL_POOL + job)
        nodes = rehearsal_nodes(job, spec, self.rehearsal_engine) if rehearse else []
        self._check_images(spec, fields.image)
        self._check_files(spec, fields.files)
        if not rehearse:
            self._check_capacity(spec, fields.shape)
        row = Job(id=job, spec=spec, request=request, owner=owner, submitted_at=self.clock.now(), labels=dict(labels))
        changes: list[Change] = [Submit(job=row), *(NodeSeen(node=node) for node in nodes)]
        self.store.commit(changes, by=owner)
        return row

    def cancel(self, job: str, *, owner: str, why: str = "") -> None:
        """Want a job to stop. Of no effect on one that has ended. Raises NotFound."""
        why = why or f"The job was cancelled by {owner}."
        self.store.commit([Cancel(job=job, why=why, at=self.clock.now())], by=owner)

    def relabel(self, job: str, labels: Mapping[str, str], *, owner: str, if_revision: int | None = None) -> Listed:
        """Replace a job's labels. Raises NotFound, or Conflict if it has another revision."""
        self.store.commit([Relabel(job=job, labels=dict(labels), if_revision=if_revision)], by=owner)
        return self.store.job(job)

    def forget(self, job: str, *, owner: str) -> None:
        """Drop a job that has ended; its files stay, its name stays taken. Raises NotFound, or IllegalMove for one that lives."""
        self.store.commit([Forget(job=job)], by=owner)

    def _check_images(self, spec: JobSpec, field: str) -> None:
        problems = dict.fromkeys(filter(None, map(self._image_problem, spec.groups)))
        if problems:
            raise NotReady(
                [Violation(field, problem) for problem in problems],
                fix="let an environment of this machine stand in for it (the setting `images`), or submit a Python package",
            )

    def _image_problem(self, group: Group) -> str:
        """Why a group's image cannot be run; empty if it can, or there is none."""
        found = stand_in(self.images, group.image) if group.image else ()
        if found is None:
            return f"no engine here can run the image {group.image}"
        if len(found) == 1 and not (group.command or group.module):
            return f"what stands in for the image {group.image} has no entry point, and the job names no command"
        return ""

    def _check_files(self, spec: JobSpec, field: str) -> None:
        missing = [uri for uri in (*spec.program.packages, spec.program.source) if uri and not self.files.exists(uri)]
        if missing:
            raise NotReady(
                [Violation(field, f"{uri} does not exist, or cannot be read by this server") for uri in missing],
                fix="upload it first (stoker jobs submit training --package-path does so), or correct the address",
            )

    def _check_capacity(self, spec: JobSpec, field: str) -> None:
        nodes = self.store.nodes()
        if not ever_fits(spec, nodes, self.rules.placer):
            nearest = nearest_shape(spec, nodes, self.rules.placer)
            raise NotReady(
                [Violation(field, f"no node here could ever hold {wanted(spec)}. {nearest}")],
                fix="ask for what there is, declare nodes (stoker up --fake …), or run it as a rehearsal on virtual"
                " nodes made for it: stoker rehearse with the same arguments",
            )


def rehearsal_nodes(job: str, spec: JobSpec, engine: str) -> list[Node]:
    """Virtual nodes that are exactly what a job asks for: one a replica, all in one zone."""
    return [
        Node(
            name=f"rehearsal-{job.replace('/', '-')}-{group.role}-{index}",
            engine=engine,
            zone="rehearsal",
            machine=group.machine.type,
            accelerator=group.machine.accelerator if group.machine.accelerator_milli else "",
            devices=tuple(str(n) for n in range(group.machine.accelerators)),
            vcpus=group.machine.vcpus,
            memory_gb=group.machine.memory_gb,
            virtual=True,
            pool=spec.pool,
        )
        for group in spec.groups
        for index in range(group.count)
    ]


def nodes_of_ended_rehearsals(nodes: Sequence[Node], live_jobs: Mapping[str, Job]) -> list[Node]:
    """The nodes whose one job is gone."""
    return [
        node
        for node in nodes
        if node.pool.startswith(REHEARSAL_POOL) and node.pool.removeprefix(REHEARSAL_POOL) not in live_jobs
    ]
