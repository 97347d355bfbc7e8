"""What users may do. Each command writes a wish and returns; the loop does the rest. No command calls an engine."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.clock import Clock
from stoker.core.changes import Cancel, Change, CordonNode, Forget, NodeSeen, Relabel, Release, Submit, UncordonNode
from stoker.core.errors import AlreadyExists, Conflict, NotFound, NotReady
from stoker.core.ids import job_id
from stoker.core.images import StandIns
from stoker.core.job import Job
from stoker.core.node import Cordon, Node, pool_record
from stoker.core.spec import JobSpec
from stoker.hardware.faults import closest, either
from stoker.scheduling.doctor import is_held
from stoker.scheduling.pools import not_there_yet
from stoker.scheduling.rules import Rules
from stoker.store.base import Listed, Store
from stoker.store.files import Files

from .admission import (
    look_at_budget,
    look_at_capacity,
    look_at_files,
    look_at_folders,
    look_at_images,
    look_at_queue,
    look_at_quota,
    look_at_rehearsal,
    refuse,
)
from .queue_limit import QueueLimit
from .submission import Fields, Submission

REHEARSAL_POOL = "rehearsal/"
"""A pool of this prefix has nodes made for one job; they go when the job has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands, with what they need."""

    store: Store
    files: Files
    rules: Rules
    clock: Clock
    images: StandIns = field(default_factory=dict)
    rehearsal_engine: str = "local"
    rehearsal_replicas: int = 0  # that the one machine of all rehearsals runs at a time; 0: no limit
    check_room: Callable[[], None] = lambda: None  # raises Unavailable while there is none for new jobs
    check_project: Callable[[str], None] = lambda project: (
        None
    )  # raises NotReady while its jobs have left too much here
    # Why its programs may not write where a job says; empty: they may.
    folder_problem: Callable[[JobSpec], str] = lambda spec: ""
    queue_limit: QueueLimit | None = None  # None: no limit to what a user may have waiting

    def submit(self, asked: Submission) -> Job:
        """Accept a job: when this returns, it is QUEUED and survives any crash.

        Raises NotReady for a project whose jobs have left too much on the disk, and with everything that `would_submit` refuses;
        AlreadyExists for a taken id, TooMany for a user of whom too many wait, Unavailable while the disk is nearly full.
        """
        self.check_room()
        self.check_project(asked.project)
        row, nodes = self.would_submit(asked)
        if self.queue_limit is not None:
            self.queue_limit.take(asked.owner)
        changes: list[Change] = [Submit(job=row), *(NodeSeen(node=node) for node in nodes)]
        self.store.commit(changes, by=asked.owner)
        return row

    def would_submit(self, asked: Submission, *, uploads: Container[str] = ()) -> tuple[Job, list[Node]]:
        """What `submit` would write: the job, and nodes that come with it.

        `uploads`: files that are not there yet, and will be. Raises NotReady with all that is wrong: a queue that there is not,
        images for which nothing stands in, files that cannot be read, folders that may not be written to, what no node, no queue
        of that name or no budget could ever hold.
        """
        job, spec, fields = job_id(asked.project, asked.name), asked.spec, asked.fields
        nodes: list[Node] = []
        most = self.rehearsal_replicas
        refuse(look_at_rehearsal(spec, most, fields.shape) if asked.rehearse else None)  # or it had too many nodes
        if asked.rehearse:
            spec = replace(spec, pool=REHEARSAL_POOL + job)
            nodes = rehearsal_nodes(job, spec, self.rehearsal_engine, most)
        row = Job(
            id=job,
            spec=spec,
            request=asked.request,
            owner=asked.owner,
            submitted_at=self.clock.now(),
            labels=dict(asked.labels),
        )
        refuse(
            look_at_queue(spec, self.rules, fields.queue),
            look_at_images(spec, self.images, fields.image),
            look_at_files(without_files(spec, uploads), self.files.of(asked.owner), fields.files),
            look_at_folders(self.folder_problem(spec), fields.folders),
            *(() if asked.rehearse else self._look_at_size(asked.project, row, fields)),
        )
        return row, nodes

    def _look_at_size(self, project: str, row: Job, fields: Fields) -> Iterator[NotReady | None]:
        present = self.store.nodes()
        present += not_there_yet(self.rules.site, present, row.spec.replicas)
        capacity = look_at_capacity(row.spec, present, self.rules, fields.shape)
        yield capacity
        yield look_at_quota(row.spec, present, self.rules, fields.shape)
        if capacity is None:  # what it costs is that of a place
            yield look_at_budget(project, row, present, self.rules, fields.shape)

    def check_name(self, job: str) -> None:
        """Raise AlreadyExists for an id that is taken, be it by a job that was forgotten."""
        if next(iter(self.store.story(job, limit=1)), None) is not None:
            raise AlreadyExists(f"there is a job {job} already")

    def cancel(self, job: str, *, owner: str, why: str = "") -> None:
        """Want a job to stop. Of no effect on one that has ended. Raises NotFound."""
        why = why or f"The job was cancelled by {owner}."
        self.store.commit([Cancel(job=job, why=why, at=self.clock.now())], by=owner)

    def release(self, job: str, *, owner: str) -> None:
        """Give back the places that are kept after a failure of this job. Raises NotFound, or Conflict if there are none."""
        attempt = self.store.job(job).attempt
        if attempt is None or not any(map(is_held, attempt.replicas)):
            raise Conflict(f"no place of {job} is kept", fix="only after a failure, with --hold-on-failure")
        self.store.commit([Release(job=job)], by=owner)

    def relabel(self, job: str, labels: Mapping[str, str], *, owner: str, if_revision: int | None = None) -> Listed:
        """Replace a job's labels. Raises NotFound, or Conflict if it has another revision."""
        self.store.commit([Relabel(job=job, labels=dict(labels), if_revision=if_revision)], by=owner)
        return self.store.job(job)

    def forget(self, job: str, *, owner: str) -> None:
        """Drop a job that has ended; its files stay, its name stays taken. Raises NotFound, or IllegalMove for one that lives."""
        self.store.commit([Forget(job=job)], by=owner)

    def cordon(self, node: str, *, owner: str, why: str = "", empty_in_seconds: float | None = None) -> None:
        """Give a node nothing new. `empty_in_seconds`: and have it empty by then; None: what runs there runs to its end.

        Raises NotFound.
        """
        now = self.clock.now()
        self._check_node(node)
        empty_at = None if empty_in_seconds is None else now + empty_in_seconds
        cordon = Cordon(why=why or f"cordoned by {owner}", by=owner, at=now, empty_at=empty_at)
        self.store.commit([CordonNode(node=node, cordon=cordon)], by=owner)

    def uncordon(self, node: str, *, owner: str) -> None:
        """Let a node be given work again, and forgive what it was to blame for. Raises NotFound."""
        self._check_node(node)
        self.store.commit([UncordonNode(node=node)], by=owner)

    def _check_node(self, node: str) -> None:
        """Raise NotFound for a node that is not there, and of which nothing is kept either."""
        world = self.store.world()
        pools = list(map(pool_record, self.rules.site.pools))
        if node not in world.nodes and node not in world.records and node not in pools:
            raise no_such_node(node, [*world.nodes, *pools])


def no_such_node(node: str, known: Iterable[str]) -> NotFound:
    """The error for a node that there is not, with those that may be meant."""
    near = closest(node, known)
    hint = f"; did you mean {either(near)}?" if near else ""
    return NotFound(f"there is no node {node[:80]!r}{hint}", fix="stoker nodes lists them")


def without_files(spec: JobSpec, uris: Container[str]) -> JobSpec:
    """The same, without those of its packages."""
    packages = tuple(uri for uri in spec.program.packages if uri not in uris)
    return (
        spec if packages == spec.program.packages else replace(spec, program=replace(spec.program, packages=packages))
    )


def rehearsal_nodes(job: str, spec: JobSpec, engine: str, most_replicas: int = 0) -> list[Node]:
    """Virtual nodes that are exactly what a job asks for: one a replica, all in one zone.

    `most_replicas`: that their one machine runs at a time, those of others included.
    """
    return [
        Node(
            name=f"rehearsal-{job.replace('/', '-')}-{group.role}-{index}",
            engine=engine,
            zone="rehearsal",
            machine=group.machine.type,
            accelerator=group.machine.accelerator.partition("|")[0] if group.machine.accelerator_milli else "",
            devices=tuple(str(n) for n in range(group.machine.accelerators)),
            vcpus=group.machine.vcpus,
            memory_gb=group.machine.memory_gb,
            virtual=True,
            most_replicas=most_replicas,
            shares_machine=bool(most_replicas),
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
