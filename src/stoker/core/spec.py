"""What a user asks for. A JobSpec is parsed once, at the edge, and never changes; dialects translate to and from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .convention import Convention
from .states import EndsWith

ROLES = ("chief", "worker", "ps", "evaluator")
"""The roles of a cluster in their order. The chief is also called the master."""

ANY_ACCELERATOR = "ANY"
"""In Machine.accelerator: so many devices, of whatever type one node has."""

WHOLE_DEVICE_MILLI = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one replica of a group gets for itself."""

    type: str = ""  # a catalog name, or empty for a shape of one's own
    vcpus: float = 1.0
    memory_gb: float = 0.0
    accelerator: str = ""  # a catalog name (NVIDIA_TESLA_T4), several joined by `|`, ANY_ACCELERATOR, or empty for none
    accelerator_milli: int = 0  # thousandths of a device: 4 GPUs are 4000, half a GPU is 500

    @property
    def memory_limit_bytes(self) -> int:
        """What a program is held to: memory that was asked for by itself. That of a machine type is counted alone; 0: none."""
        return 0 if self.type else int(self.memory_gb * 2**30)

    @property
    def accelerators(self) -> int:
        """How many devices the replica sees. A share of a device is seen as one."""
        return -(-self.accelerator_milli // WHOLE_DEVICE_MILLI)

    @property
    def milli_of_each(self) -> int:
        """What it takes of each device that it sees: 1000, or its share of the one."""
        return min(self.accelerator_milli, WHOLE_DEVICE_MILLI)

    @property
    def accelerator_choices(self) -> tuple[str, ...]:
        """The types that it would take, each as good. Empty: it wants none, or takes any."""
        return () if self.accelerator in ("", ANY_ACCELERATOR) else tuple(self.accelerator.split("|"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """So many equal replicas of one role."""

    role: str
    count: int
    machine: Machine
    image: str = ""  # a container image; empty for a Python program
    command: tuple[str, ...] = ()  # replaces the image's entry point
    args: tuple[str, ...] = ()  # replaces the image's arguments
    module: str = ""  # run as `python -m MODULE` in the image
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # on top of the program's


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The Python environment that a program asks for; what is empty, its runtime says."""

    python: str = ""  # the path of an interpreter, or a version: `3.12`, `>=3.11`
    requirements: tuple[str, ...] = ()  # lines of a requirements file (core/requirements.py)

    @property
    def is_path(self) -> bool:
        """Whether an interpreter of the machine is named."""
        return self.python.startswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The user's code: packages with a module, or a source archive with a command."""

    packages: tuple[str, ...] = ()  # URIs of sdists and wheels, installed in this order
    module: str = ""  # run as `python -m MODULE`
    source: str = ""  # URI of an archive of the user's folder; becomes the working directory
    command: tuple[str, ...] = ()  # run as it stands
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets: no story or message shows it
    runtime: str = ""  # "2.11": which configured runtime; empty for the site's default
    python: str = ""  # "3.7", as asked for
    variables: Mapping[str, str] = field(default_factory=dict)  # what its options set (core/options.py), below `env`
    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a job may take. Sources: AI Platform v1, Scheduling."""

    running_seconds: float = 604800.0  # seven days, counted from RUNNING
    wait_seconds: float | None = None  # until the first RUNNING
    grace_seconds: float = 30.0  # between SIGTERM and SIGKILL
    hang_seconds: float = 3600.0  # without output, beat and progress, until it counts as hung; 0: never
    hold_seconds: float = 0.0  # how long a place is kept after its program has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often what failed is tried again. Sources: AI Platform, understanding-training-service."""

    in_place: int = 5  # restarts of one replica by its own supervisor
    whole_job: int = 3  # new attempts of the whole gang
    ends_early: bool = True  # when it has ended in the same way at the same place, again and again

    @classmethod
    def counted(cls, most: int) -> Retry:
        """So many new attempts as the user has asked for, each with one start, however alike they end."""
        return cls(in_place=0, whole_job=most, ends_early=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What is to run, on what. Never changes once submitted."""

    kind: str = "training"
    program: Program
    groups: tuple[Group, ...]
    region: str = ""
    job_dir: str = ""
    queue: str = "default"
    priority: int = 0  # 0 to 1000, greater first
    preemptible: bool = False  # it may be stopped for others at any time, and goes on later
    resumable: bool = False  # started again, it goes on from its checkpoint
    pool: str = ""  # only nodes of this pool may hold it: a rehearsal has one of its own
    limits: Limits = field(default_factory=Limits)
    retry: Retry = field(default_factory=Retry)
    ends_with: EndsWith = EndsWith.PRIMARY
    convention: Convention = Convention.AI_PLATFORM
    primary_name: str = "chief"  # what TF_CONFIG calls the chief: `chief` or `master`
    told: str = "{}"  # JSON: what TF_CONFIG's `job` tells the program

    @property
    def replicas(self) -> int:
        """How many processes the gang has."""
        return sum(group.count for group in self.groups)

    @property
    def accelerator_types(self) -> frozenset[str]:
        """The accelerator types that the gang asks for."""
        return frozenset(
            name for g in self.groups if g.machine.accelerator_milli for name in g.machine.accelerator.split("|")
        )

    @property
    def accelerator_milli(self) -> int:
        """Thousandths of devices that the whole gang asks for."""
        return sum(g.count * g.machine.accelerator_milli for g in self.groups)

    @property
    def gives_way(self) -> bool:
        """Whether being stopped loses it little: it said that it may be, or that it resumes."""
        return self.preemptible or self.resumable
