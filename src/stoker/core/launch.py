"""A Launch: everything that an engine needs to run one attempt, with nothing left to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .convention import Convention
from .images import StandIns
from .spec import Environment, Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFile:
    """A file that every replica needs. It is fetched from the server by its number."""

    number: int
    name: str
    uri: str
    stamp: str  # changes when the content does


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits:
    """What a replica may leave behind. 0 is no limit."""

    log_bytes: float = 0.0  # of its output
    log_bytes_per_second: float = 0.0  # of each of its streams
    job_log_bytes: float = 0.0  # of the output of all replicas of its job
    disk_bytes: float = 0.0  # in its working directory and what else is its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the site adds to a job: where its files are, and with which Python it runs."""

    python: str  # the interpreter of the runtime that the job asked for
    images: StandIns = field(default_factory=dict)
    buckets: Mapping[str, str] = field(default_factory=dict)  # of gs://, as far as the program names them → folder
    folders: tuple[str, ...] = ()  # of this machine, which the job names and its programs may write to
    job_dir: str = ""  # as the program sees it: a plain path, or the URI where nothing maps it
    packages: tuple[LaunchFile, ...] = ()
    source: tuple[LaunchFile, ...] = ()
    limits: ReplicaLimits = field(default_factory=ReplicaLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReplica:
    """One process of the gang."""

    role: str
    index: int
    node: str
    devices: tuple[str, ...]
    python: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    is_container: bool = False
    machine: Machine = field(default_factory=Machine)  # what it gets for itself there


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt, ready to run."""

    attempt: str
    number: int
    convention: Convention
    primary_name: str
    told: str
    packages: tuple[LaunchFile, ...]
    source: tuple[LaunchFile, ...]
    grace_seconds: float
    in_place: int
    ends_early: bool = True  # no more restarts in place once it has ended alike again and again
    failures: int = 0  # attempts before this one that failed: the pauses go on growing
    hang_seconds: float = 0.0  # 0: never
    hold_seconds: float = 0.0
    replicas: tuple[LaunchReplica, ...]
    lease_seconds: float = 0.0  # as of its attempt; where the witnesses are, its engine knows
    owner: str = ""
    folders: tuple[str, ...] = ()  # of this machine, which its programs may write to
    environment: Environment = field(default_factory=Environment)  # on top of each one's interpreter
    limits: ReplicaLimits = field(default_factory=ReplicaLimits)
