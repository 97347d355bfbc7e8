"""What an engine is. Asked by attempt id, it finds its own again, also after a restart of the server.

An engine that can lose a node gives its nodes `lease_seconds`. What a supervisor has started there ends soon after it, also where
it was killed and nobody reaches the node: by a PID namespace, or by a part of the engine on the node.

Of a node that it cannot ask it says DOWN (or nothing at all, once it is gone), and of replicas there, which may run on, nothing:
neither that they are LOST nor that they are NOTHING. They count as ended when their lease has run out (control/leases.py); sooner
only if the engine knows for certain, and says LOST.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stoker.core.job import Attempt
from stoker.core.launch import Launch, LaunchFile, LaunchReplica
from stoker.core.node import Node
from stoker.core.spec import Machine
from stoker.core.states import ReplicaState, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Exactly what an engine will be told: shown by a dry run, compared by golden tests, then sent."""

    attempt: str
    replicas: Mapping[str, Mapping[str, Any]]  # `worker-0` → the engine's own words


def words_of(launch: Launch, replica: LaunchReplica) -> dict[str, Any]:
    """What a supervisor is told of its replica on any engine, but for what depends on the machine."""
    return {
        "attempt": launch.attempt,
        "number": launch.number,
        "role": replica.role,
        "index": replica.index,
        "is_alone": len(launch.replicas) == 1,
        "convention": launch.convention,
        "primary_name": launch.primary_name,
        "told": launch.told,
        "cloud_id": launch.attempt,
        "is_container": replica.is_container,
        "python": replica.python,
        "command": list(replica.command),
        "devices": list(replica.devices),
        "memory_limit_bytes": replica.machine.memory_limit_bytes,
        "machine_memory_bytes": int(replica.machine.memory_gb * 2**30),
        "vcpus": replica.machine.vcpus,
        "is_sized": bool(replica.machine.type) or replica.machine.vcpus != Machine().vcpus,
        "grace_seconds": launch.grace_seconds,
        "in_place": launch.in_place,
        "ends_early": launch.ends_early,
        "failures": launch.failures,
        "hang_seconds": launch.hang_seconds,
        "hold_seconds": launch.hold_seconds,
        "packages": list(map(_file, launch.packages)),
        "source": list(map(_file, launch.source)),
        "python_asked": launch.environment.python,
        "requirements": list(launch.environment.requirements),
        "limits": _limits(launch),
    }


def _limits(launch: Launch) -> dict[str, float]:
    """What one replica may leave behind. Of the output of a job each gets its part, so that all keep their last lines."""
    limits, part = launch.limits, launch.limits.job_log_bytes / len(launch.replicas)
    return {
        "log_bytes": min(filter(None, (limits.log_bytes, part)), default=0.0),
        "log_bytes_per_second": limits.log_bytes_per_second,
        "disk_bytes": limits.disk_bytes,
    }


def _file(file: LaunchFile) -> dict[str, Any]:
    return {"number": file.number, "name": file.name, "stamp": file.stamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an engine sees of one replica."""

    role: str
    index: int
    state: ReplicaState
    exit_code: int | None = None
    message: str = ""
    addresses: tuple[str, ...] = ()
    out_of_memory: bool = False
    restarts: int = 0  # in place
    sign: str = ""  # the signature that its output bears; empty: none is known
    evidence: str = ""  # the line that bears it
    place: str = ""  # the last line that it printed, where it failed
    alike: int = 0  # so many of its ends in a row, at the last, were alike
    standing: Standing = Standing.GOING  # of one that is UP
    last_line: int = 0  # how many lines it has written


class Engine(Protocol):
    """Starts, watches and ends the replicas of attempts."""

    def nodes(self) -> Sequence[Node]:
        """The machines that it has now: the same sequence as before, if they are the same."""
        ...

    def render(self, launch: Launch) -> Request:
        """What `start` would be given. Pure."""
        ...

    def start(self, request: Request) -> None:
        """Make every replica run. Idempotent by attempt; does nothing after `stop`.

        Raises EngineError if it cannot, and Unavailable if it cannot now: then it is asked again.
        """
        ...

    def stop(self, attempt: str, *, force: bool) -> None:
        """End every replica: a fence, after which nothing of this attempt starts. `force`: without grace."""
        ...

    def ask(self, attempt: str, request: Mapping[str, Any]) -> None:
        """Hand every replica that can be reached a request of its user's (runtime/profile.py); it answers by its log.

        The newest counts. Raises Unavailable if it cannot be handed over now.
        """
        ...

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What is to be seen of these attempts (id → attempt), asked once for all.

        What is no news may be left out; what cannot be known, such as a replica on a node that does not answer, has to be.
        """
        ...

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines of one replica (`worker-0`) that the engine has, after a number: {n, t, s, m}."""
        ...

    def forget(self, attempt: str) -> None:
        """The attempt has ended and will not be asked for again: give back what it used."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Machines that were ordered and do not come."""

    pool: str
    why: str  # in the words of who was asked: a stock-out, a quota


class ServedEngine(Engine, Protocol):
    """An engine whose replicas speak to a server, which may be another one tomorrow."""

    def be_found_at(self, server_url: str) -> None:
        """Let replicas find the server there, also those of an earlier one."""
        ...

    def attempts(self) -> Collection[str]:
        """The attempts of which something is here, running or ended, as far as it can tell without asking anybody."""
        ...

    def adopt(self, live: Collection[str], nodes: Sequence[Node] = (), *, unknown: Collection[str] = ()) -> None:
        """Take over what an earlier server has started. What is of no live attempt is ended. `nodes`: as they were last known.

        `unknown`: attempts that the database has lost. They are let be, and nothing is started beside them, for nobody can
        tell what they hold.
        """
        ...

    def put_away(self, attempts: Collection[str], folder: Path) -> set[str]:
        """Move what is left of these attempts, which have been ended, into a folder. Returns those that still run."""
        ...

    def listen(self, ring: Callable[[], None]) -> None:
        """Call `ring`, from any thread, when there is news of nodes or replicas that nobody else tells of."""
        ...

    def problem(self) -> str:
        """Why it cannot be used now, and what to do; empty: it can."""
        ...


class Supplier(Protocol):
    """Orders machines of the site's pools. They become nodes that bear the pool's name, and go when they idle."""

    def want(self, machines: Mapping[str, int]) -> None:
        """From now on there is reason for so many machines of each pool, all together. Said again and again; it does not wait."""
        ...

    def refusals(self) -> Sequence[Refusal]:
        """What was refused since this was asked last."""
        ...


class ElasticEngine(ServedEngine, Supplier, Protocol):
    """An engine that orders its own machines."""
