"""What a server tells of itself: its state, its settings, its nodes."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from .words import Time, says


class JobCounts(TypedDict):
    """How many jobs there are."""

    live: Annotated[int, says("Jobs that wait or run, of every project.", 3)]
    running: Annotated[int, says("Those of them that hold machines.", 1)]


class Isolation(TypedDict):
    """How far programs are kept from each other and from the server (docs/security.md)."""

    level: Annotated[int, says("The level in force: 0, 1 or 2.", 1)]
    asked: Annotated[str, says("What the setting `isolation` asks for.", "auto")]
    by: Annotated[str, says("What keeps programs apart.", "bubblewrap 0.8.0")]
    ended_by: Annotated[
        str, says("How processes are ended that a killed supervisor leaves behind.", "PID namespace, cgroup v2")
    ]
    limits: Annotated[str, says("What a replica is held to; empty for nothing.", "10000 processes")]
    server: Annotated[
        str,
        says(
            "What keeps the server answering, whatever jobs do; empty for nothing.",
            "oom_score_adj -900, nice -5; all jobs together: cpu.shares 1024, 22.1 GB of memory",
        ),
    ]
    next: Annotated[
        str,
        says("What the next level needs; empty at the highest.", "level 2 works here: stoker config set isolation 2"),
    ]


class Status(TypedDict):
    """What a server is and has."""

    version: Annotated[str, says("The server's version.", "0.1.0")]
    home: Annotated[str, says("The folder in which it keeps everything.", "/home/ada/.local/share/stoker")]
    leads: Annotated[bool, says("Whether it decides; else it stands by, answers, and changes nothing.", True)]
    leader: Annotated[str, says("The address of the server that leads; empty for none.", "http://127.0.0.1:7077")]
    engines: Annotated[list[str], says("Where replicas can run.", ["local"])]
    problems: Annotated[list[str], says("Why engines cannot be used now; empty if all can.", [])]
    nodes: Annotated[int, says("How many nodes there are.", 1)]
    jobs: JobCounts
    isolation: Isolation
    hold: Annotated[bool, says("Whether jobs are accepted and none is started.", False)]
    site: Annotated[
        str,
        says("The site file that it reads when it starts; empty for none.", "/home/ada/.local/share/stoker/site.toml"),
    ]
    buckets: Annotated[
        str, says("Where buckets are.", "gs://BUCKET is /home/ada/.local/share/stoker/buckets/gs/BUCKET")
    ]


class Farewell(TypedDict):
    """What goes on when the server has ended."""

    running: Annotated[list[str], says("The names of jobs that run on without it.", ["train_3f2a"])]


class Setting(TypedDict):
    """A setting of the server."""

    name: Annotated[str, says("Its name, in files; in the environment STOKER_ and the name in capitals.", "port")]
    value: Annotated[Any, says("Its value; of a secret only `(set)`.", 7077)]
    source: Annotated[str, says("Where it comes from: flag, environment, a file's path, default.", "default")]
    help: Annotated[str, says("What it is.", "The port that the server listens on; 0 takes any that is free.")]


class Settings(TypedDict):
    """All settings."""

    settings: list[Setting]


class Cordon(TypedDict):
    """Somebody's wish that a node be given nothing new."""

    why: Annotated[str, says("Why, as it was said.", "new driver")]
    by: Annotated[str, says("Who wants it: a user, or `stoker` itself, for a node by which jobs failed.", "ada")]
    at: Annotated[float, says(f"Since when. {Time}", 1760000000.0)]
    empty_at: Annotated[
        float | None,
        says(f"By when what runs there has to be gone; null: it runs to its own end. {Time}", 1760001800.0),
    ]


class Fault(TypedDict):
    """A failure for which a node is to blame."""

    job: Annotated[str, says("The job that failed, with its project.", "local/train_3f2a")]
    at: Annotated[float, says(f"When. {Time}", 1760000000.0)]
    what: Annotated[str, says("What happened.", "the node was lost")]


class Node(TypedDict):
    """A machine, real or declared, and what is free on it."""

    name: Annotated[str, says("Its name.", "local-nvidia_tesla_t4")]
    engine: Annotated[str, says("The engine that starts replicas on it.", "local")]
    state: Annotated[
        str, says("What its engine says: UP, DRAINING or DOWN; GONE: nothing, and it is known as cordoned.", "UP")
    ]
    takes_work: Annotated[bool, says("Whether it is given anything new: UP, not cordoned, and not leaving.", False)]
    cordon: Cordon | None
    leaving_at: Annotated[
        float | None, says(f"When its machine goes away, where its engine was told so. {Time}", 1760003600.0)
    ]
    lease_seconds: Annotated[
        float, says("How long replicas run on there without being heard of; 0: the server shares its fate.", 0.0)
    ]
    faults: Annotated[list[Fault], says("What it was to blame for within a day, oldest first.", [])]
    region: Annotated[str, says("Its region; empty stands for any.", "")]
    zone: Annotated[str, says("Its zone.", "local")]
    machine_type: Annotated[str, says("Its machine type, where it has one.", "n1-highcpu-16")]
    node_pool: Annotated[str, says("The site's pool from which it was ordered; empty for none.", "t4x4")]
    spot: Annotated[bool, says("Whether it may be taken away at any time.", False)]
    virtual: Annotated[bool, says("Whether it is declared, and its replicas run on this machine.", False)]
    accelerator: Annotated[str, says("The type of its accelerators; empty for none.", "NVIDIA_TESLA_T4")]
    accelerators: Annotated[int, says("How many accelerators it has.", 4)]
    accelerators_free: Annotated[float, says("How many of them nobody holds; a share counts as its part.", 2.0)]
    vcpus: Annotated[float, says("Its vCPUs.", 16.0)]
    memory_gb: Annotated[float, says("Its memory in GB.", 14.4)]
    soft: Annotated[bool, says("Whether one job alone may take more vCPUs and memory than it has.", True)]
    most_replicas: Annotated[int, says("How many replicas its machine runs at a time; 0: nobody has said.", 200)]
    shares_machine: Annotated[bool, says("Whether all nodes of its engine are on one machine.", True)]
    jobs: Annotated[list[str], says("The names of the jobs that hold something of it.", ["train_3f2a"])]


class Nodes(TypedDict):
    """All nodes, the real ones first."""

    nodes: list[Node]
