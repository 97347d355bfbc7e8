"""The physical world of a simulation: machines on which supervisors run programs, whatever becomes of the server.

A model of what `engines/local/engine.py` and `runtime/` do for real, fault by fault; the real ones are under fire in `real.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.core.copies import replace
from stoker.core.errors import EngineError, Unavailable
from stoker.core.ids import job_of_attempt, replica_name
from stoker.core.job import Attempt
from stoker.core.launch import Launch
from stoker.core.node import Node, NodeState
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Request, Seen
from stoker.scheduling.nodes import node_of

from .luck import Faults

IN_PLACE = 5
RESTARTABLE = (137, 143, 255)
CODES = (1, 1, 3, 6, 134, 137, 137, 139, 143, 255)
CURSE = 139
LONGEST_GRACE_SECONDS = 30.0


@dataclass(slots=True)
class Program:
    """A process of a user's program, as long as it is there."""

    attempt: str
    replica: str
    devices: tuple[tuple[str, str], ...]
    milli: int
    stands_still_until: float = 0.0  # with its machine: it is there, and does nothing


@dataclass(slots=True)
class Supervisor:
    """One replica's supervisor and its folder: what is on disk outlives it."""

    attempt: str
    role: str
    index: int
    node: str
    devices: tuple[tuple[str, str], ...]
    milli: int
    steps: int  # that the whole job has
    lives: bool = True
    begun: bool = False
    stands_still_until: float = 0.0
    status: ReplicaState | None = None
    exit_code: int | None = None
    addresses: tuple[str, ...] = ()
    restarts: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    shipped: int = 0
    has_reported: bool = False
    knows_cluster: bool = False
    program: Program | None = None
    step: int = 0
    stopping_since: float | None = None
    ignores_term: bool = False
    gave_up: bool = False  # the server does not know the attempt any more
    lease_seconds: float = 0.0  # by its own clock, which may be a little fast or slow; 0: it has none
    renewed_at: float = 0.0
    was_cut_off: bool = False

    @property
    def name(self) -> str:
        """`worker-0`."""
        return replica_name(self.role, self.index)

    @property
    def id(self) -> str:
        """`p/j.1/worker-0`."""
        return f"{self.attempt}/{self.name}"

    @property
    def has_ended(self) -> bool:
        """Whether its status is final."""
        return self.status in FINAL_REPLICA_STATES


@dataclass(slots=True)
class Checkpoint:
    """What a job's chief last wrote into the job's folder, durably."""

    step: int
    attempt: int


@dataclass(slots=True)
class Cluster:
    """Nodes, supervisors, programs and the jobs' folders."""

    nodes: list[Node]
    dice: random.Random
    faults: Faults
    now: Callable[[], float]
    later: Callable[[float, str, Callable[[], None]], None]
    tell: Callable[[str], None]
    send: Callable[[Supervisor, str, dict[str, Any]], tuple[int, dict[str, Any]] | None]
    steps_of: Callable[[str], int]
    milli_of: Callable[[str], int]  # of each device that a replica of the job sees
    is_cursed: Callable[[str], bool]
    violated: Callable[[str, str], None]
    meanwhile: Callable[[], None]  # others act while a call of the engine lasts
    gangs: dict[str, dict[str, Supervisor]] = field(default_factory=dict)
    fences: set[str] = field(default_factory=set)
    programs: list[Program] = field(default_factory=list)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    restored: dict[str, tuple[int, int]] = field(default_factory=dict)  # job → attempt and step of its last restore
    started: dict[str, int] = field(default_factory=dict)  # replica id → how often its program was started
    cut_off: set[str] = field(default_factory=set)  # nodes that nobody reaches, and that reach nobody

    # What the engine does.

    def start(self, request: Request) -> None:
        """Make the folders and the supervisors that are not there yet."""
        if request.attempt in self.fences:
            return
        silent = {words["node"] for words in request.replicas.values()} & self.cut_off
        if silent:
            raise Unavailable(f"{sorted(silent)} do not answer")
        gang = self.gangs.setdefault(request.attempt, {})
        for name, words in request.replicas.items():
            if name not in gang:
                gang[name] = Supervisor(
                    attempt=request.attempt,
                    role=words["role"],
                    index=words["index"],
                    node=words["node"],
                    devices=tuple((words["node"], device) for device in words["devices"]),
                    milli=self.milli_of(job_of_attempt(request.attempt)),
                    steps=self.steps_of(job_of_attempt(request.attempt)),
                    lease_seconds=words["lease_seconds"] * self.dice.uniform(0.95, 1.05),
                )
                self._soon(gang[name], 0.02, 1.5, "begins", self._begin)

    def stop(self, attempt: str, force: bool) -> None:
        """Raise the fence; TERM, or KILL."""
        is_new = attempt not in self.fences
        self.fences.add(attempt)
        for supervisor in self.gangs.get(attempt, {}).values():
            if supervisor.node in self.cut_off:
                continue
            if supervisor.lives and force:
                self.kill(supervisor, "is killed by force")
                self._sweep(supervisor)
            elif supervisor.lives and is_new:
                self._soon(supervisor, 0.0, 0.3, "hears TERM", self._asked_to_stop)

    def kill(self, supervisor: Supervisor, why: str) -> None:
        """End a supervisor at once. Its program dies with it, but what that has left behind does not.

        Where a node can be lost, the engine's own part on the node ends that soon after, be the node cut off or not
        (engines/base.py).
        """
        self.tell(f"{supervisor.id} {why}")
        supervisor.lives = False
        if supervisor.program is None:
            return
        if not self.faults.strikes("a child outlives its supervisor"):
            self._end_program(supervisor)
        elif supervisor.lease_seconds:
            soon = self.dice.uniform(0.0, supervisor.lease_seconds / 3)
            self.later(soon, f"{supervisor.id} is swept", lambda: self._end_program(supervisor))

    def seen(self, attempt: Attempt, role: str, index: int) -> Seen:
        """As `LocalEngine._judged`: what a folder tells."""
        supervisor = self.gangs.get(attempt.id, {}).get(replica_name(role, index))
        if supervisor is None:
            state = ReplicaState.LOST if attempt.id in self.fences else ReplicaState.NOTHING
            return Seen(role=role, index=index, state=state)
        state = supervisor.status or ReplicaState.NOTHING
        if not supervisor.lives and state not in FINAL_REPLICA_STATES:
            self._sweep(supervisor)
            state = ReplicaState.LOST
        return Seen(
            role=role,
            index=index,
            state=state,
            exit_code=supervisor.exit_code,
            addresses=supervisor.addresses,
            restarts=supervisor.restarts,
            last_line=len(supervisor.lines),
        )

    def cut(self, node: str, seconds: float) -> None:
        """Nobody reaches this node for so long."""
        if node in self.cut_off:
            return
        self.tell(f"node {node} is cut off")
        self.cut_off.add(node)
        for supervisor in self._on(node):
            supervisor.was_cut_off = True
        self.later(seconds, f"node {node} is back", lambda: self._back(node))

    def _back(self, node: str) -> None:
        self.cut_off.discard(node)
        self.tell(f"node {node} is back")
        for supervisor in self._on(node):
            if supervisor.attempt in self.fences:
                self._soon(supervisor, 0.0, 0.3, "hears TERM", self._asked_to_stop)

    def _on(self, node: str) -> list[Supervisor]:
        return [s for gang in self.gangs.values() for s in gang.values() if s.lives and s.node == node]

    def lines(self, attempt: str, replica: str, after: int) -> list[dict[str, Any]]:
        """The lines on disk after a number."""
        supervisor = self.gangs.get(attempt, {}).get(replica)
        return supervisor.lines[after:] if supervisor else []

    # What a supervisor does.

    def _begin(self, me: Supervisor) -> None:
        if me.attempt in self.fences:
            me.lives = False  # before it has written anything: it never was
            return
        me.begun, me.status, me.renewed_at = True, ReplicaState.STARTING, self.now()
        if me.lease_seconds:
            self._soon(me, me.lease_seconds / 3, me.lease_seconds / 3, "beats", self._beat)
        me.addresses = (f"10.0.0.1:{self.dice.randrange(1024, 65535)}",)
        self._join(me)

    def _beat(self, me: Supervisor) -> None:
        """As runtime/lease.py: renew, or end when that was not possible for as long as the lease."""
        if me.has_ended:
            return
        began = self.now()
        answer = self._sent(me, "beat", {})
        if answer is not None and answer[0] in (404, 409):
            return self._end_by_lease(me, "refused")
        if me.node not in self.cut_off:
            me.renewed_at = began  # where the server does not answer, a witness does
        if answer is not None and answer[0] < 400 and answer[1].get("stop"):
            self._asked_to_stop(me)
        left = me.renewed_at + me.lease_seconds - self.now()
        self._soon(me, min(left, me.lease_seconds / 3), min(left, me.lease_seconds / 3), "beats", self._beat)

    def _sent(self, me: Supervisor, what: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        return None if me.node in self.cut_off else self.send(me, what, body)

    def _is_over(self, me: Supervisor) -> bool:
        return bool(me.lease_seconds) and me.begun and self.now() >= me.renewed_at + me.lease_seconds - 1e-6

    def _end_by_lease(self, me: Supervisor, why: str) -> None:
        self.tell(f"{me.id} ends itself, for its lease is {why}")
        self._end_program(me)
        self._end(me, ReplicaState.LOST, None)

    def _join(self, me: Supervisor) -> None:
        if me.has_ended:
            return
        if self._is_told_to_stop(me):
            return self._end(me, ReplicaState.FAILED, 143)
        answer = self._sent(me, "join", {"addresses": list(me.addresses)})
        if answer is not None and answer[0] in (404, 409):
            return self._end(me, ReplicaState.FAILED, None)
        if answer is None or answer[0] >= 400 or not answer[1].get("cluster"):
            return self._soon(me, 0.05, 5.0, "joins", self._join)
        gang = self.gangs[me.attempt]
        told = sum(len(addresses) for addresses in answer[1]["cluster"].values())
        if told != len(gang) or not all(addresses for group in answer[1]["cluster"].values() for addresses in group):
            self.violated("6 gang", f"{me.id} was told of {told} of {len(gang)} replicas")
        me.knows_cluster = True
        self._start_program(me)

    def _start_program(self, me: Supervisor) -> None:
        if me.has_ended:
            return
        if self._is_told_to_stop(me):
            return self._end(me, ReplicaState.FAILED, 143)
        job, number = job_of_attempt(me.attempt), int(me.attempt.rpartition(".")[2])
        self.started[me.id] = self.started.get(me.id, 0) + 1
        if self.started[me.id] > me.restarts + 1:
            self.violated("2 one live lease", f"the program of {me.id} was started twice")
        me.program = Program(me.attempt, me.name, me.devices, me.milli)
        self.programs.append(me.program)
        me.status = ReplicaState.UP
        checkpoint = self.checkpoints.get(job, Checkpoint(0, 0))
        if checkpoint.attempt > number:
            self.violated("13 restore", f"{me.id} starts after attempt {checkpoint.attempt} has written a checkpoint")
        if me.role == "chief":
            before = self.restored.get(job, (0, 0))
            if checkpoint.step < before[1] or number < before[0]:
                self.violated(
                    "13 restore", f"{me.id} goes on from step {checkpoint.step}, an earlier one from {before}"
                )
            self.restored[job] = (number, checkpoint.step)
        me.step = checkpoint.step
        self.tell(f"{me.id} runs from step {me.step}")
        self._print(me, f"begins at {me.step}")
        self._soon(me, 2.0, 15.0, "steps", self._step)
        self._soon(me, 0.05, 1.0, "ships", self._ship)

    def _step(self, me: Supervisor) -> None:
        if me.program is None or me.has_ended or me.stopping_since is not None:
            return
        if self.faults.strikes("a program hangs"):
            return self.tell(f"{me.id} hangs")
        if me.lease_seconds and self.faults.strikes("a node is cut off"):
            self.cut(me.node, self.dice.uniform(5.0, 200.0))
        if self.faults.strikes("a supervisor is killed"):
            return self.kill(me, "is killed")
        if self.faults.strikes("a program fails"):
            return self._exited(me, self.dice.choice(CODES))
        if self.is_cursed(job_of_attempt(me.attempt)):
            return self._exited(me, CURSE)
        me.step += 1
        self._print(me, f"step {me.step}")
        if me.role == "chief" and me.step % 3 == 0:
            self._write_checkpoint(me)
        if me.role != "ps" and me.step >= me.steps:
            return self._exited(me, 0)
        self._soon(me, 2.0, 15.0, "steps", self._step)

    def _write_checkpoint(self, me: Supervisor) -> None:
        job, number = job_of_attempt(me.attempt), int(me.attempt.rpartition(".")[2])
        before = self.checkpoints.get(job, Checkpoint(0, 0))
        if before.attempt > number:
            self.violated("13 restore", f"{me.id} writes a checkpoint after attempt {before.attempt} has")
        self.checkpoints[job] = Checkpoint(me.step, number)

    def _exited(self, me: Supervisor, code: int) -> None:
        self.tell(f"{me.id} exits with {code}")
        self._end_program(me)
        if code in RESTARTABLE and me.restarts < IN_PLACE and me.stopping_since is None:
            me.restarts += 1
            return self._soon(me, 0.5, 8.0, "starts again in place", self._start_program)
        self._end(me, ReplicaState.FAILED if code else ReplicaState.SUCCEEDED, code)

    def _asked_to_stop(self, me: Supervisor) -> None:
        if me.has_ended or me.stopping_since is not None:
            return
        me.stopping_since = self.now()
        if me.program is None:
            return  # whatever it does next, it looks first
        if self.faults.strikes("a program ignores TERM"):
            return self._soon(
                me, LONGEST_GRACE_SECONDS, LONGEST_GRACE_SECONDS + 1, "is killed after TERM", self._stopped
            )
        self._soon(me, 0.0, 5.0, "ends after TERM", self._stopped)

    def _stopped(self, me: Supervisor) -> None:
        if not me.has_ended:
            if me.role == "chief" and me.program is not None:
                self._write_checkpoint(me)
            self._print(me, "stopped")
            self._end_program(me)
            self._end(me, ReplicaState.FAILED, 143)

    def _end(self, me: Supervisor, status: ReplicaState, code: int | None) -> None:
        if not me.has_ended:
            me.status, me.exit_code = status, code
            self._soon(me, 0.0, 1.0, "ships its end", self._ship)

    def _ship(self, me: Supervisor) -> None:
        """Send what is on disk, then the report; again and again until it is taken."""
        if me.gave_up:
            me.lives = False
            return
        part = me.lines[me.shipped : me.shipped + 20]
        is_all = me.shipped + len(part) == len(me.lines)
        if not part and not me.has_ended:
            if me.program is not None:
                self._soon(me, 1.0, 10.0, "ships", self._ship)
            return
        body: dict[str, Any] = {"lines": part}
        if is_all:
            body |= {"seen": str(me.status), "exit_code": me.exit_code, "restarts": me.restarts}
        answer = self._sent(me, "report" if is_all else "lines", body)
        if answer is None or answer[0] >= 500:
            return self._soon(me, 0.05, 5.0, "ships again", self._ship)
        if answer[0] >= 400:
            me.gave_up = True
        else:
            me.shipped += len(part)
        if me.has_ended and (me.gave_up or (is_all and me.shipped == len(me.lines))):
            me.has_reported, me.lives = True, False
            return
        self._soon(me, 0.5, 10.0, "ships", self._ship)

    # Small parts.

    def _is_told_to_stop(self, me: Supervisor) -> bool:
        return me.attempt in self.fences or me.stopping_since is not None

    def _print(self, me: Supervisor, text: str) -> None:
        me.lines.append({"n": len(me.lines) + 1, "t": self.now(), "s": "out", "m": f"{me.id} {text}"})

    def _end_program(self, me: Supervisor) -> None:
        if me.program is not None:
            self.programs.remove(me.program)
            me.program = None

    def _sweep(self, me: Supervisor) -> None:
        self._end_program(me)

    def _soon(self, me: Supervisor, least: float, most: float, what: str, act: Callable[[Supervisor], None]) -> None:
        """Let a living supervisor act after a while; one that stands still acts when it moves again."""
        if self.faults.strikes("a replica stands still"):
            me.stands_still_until = self.now() + self.dice.uniform(10.0, 90.0)
            self.tell(f"{me.id} stands still")
            if me.program is not None:
                me.program.stands_still_until = me.stands_still_until

        def then() -> None:
            if not me.lives:
                return
            if me.stands_still_until > self.now():
                self.later(me.stands_still_until - self.now(), f"{me.id} {what}", then)
                return
            if self._is_over(me) and not me.has_ended:
                self._end_by_lease(me, "over")  # before anything else
            act(me)

        self.later(self.dice.uniform(least, most), f"{me.id} {what}", then)


class SimulatedEngine:
    """Implements Engine: the server's hands on the cluster. It dies with the server, the cluster does not."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._faults = cluster.faults
        self._nodes: tuple[Node, ...] = ()

    def nodes(self) -> Sequence[Node]:
        """The nodes of the cluster; one that is cut off is DOWN."""
        cut_off = self._cluster.cut_off
        found = tuple(replace(n, state=NodeState.DOWN) if n.name in cut_off else n for n in self._cluster.nodes)
        if self._nodes != found:
            self._nodes = found
        return self._nodes

    def render(self, launch: Launch) -> Request:
        """Where each replica goes, with which devices."""
        return Request(
            attempt=launch.attempt,
            replicas={
                replica_name(r.role, r.index): {
                    "role": r.role,
                    "index": r.index,
                    "node": r.node,
                    "devices": list(r.devices),
                    "lease_seconds": launch.lease_seconds,
                }
                for r in launch.replicas
            },
        )

    def start(self, request: Request) -> None:
        """Start the supervisors, or some of them, or none."""
        self._cluster.meanwhile()
        self._faults.crash("crash before an engine call")
        if self._faults.strikes("an engine cannot start"):
            raise EngineError("no more processes")
        if self._faults.strikes("an engine call hangs") and len(request.replicas) > 1:
            some = dict(list(request.replicas.items())[:1])
            self._cluster.start(Request(attempt=request.attempt, replicas=some))
            raise EngineError("it hung, and was given up")
        self._cluster.start(request)
        self._faults.crash("crash after an engine call")

    def stop(self, attempt: str, *, force: bool) -> None:
        """Fence and stop."""
        self._cluster.meanwhile()
        self._faults.crash("crash before an engine call")
        self._cluster.stop(attempt, force)
        self._faults.crash("crash after an engine call")

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What the folders tell; now and then nothing of some attempt."""
        found = {
            a.id: [
                self._cluster.seen(a, r.role, r.index)
                for r in a.replicas
                if r.seen not in FINAL_REPLICA_STATES and node_of(a, r) not in self._cluster.cut_off
            ]
            for a in attempts.values()
            if not self._faults.strikes("an engine is silent")
        }
        self._cluster.meanwhile()
        return found

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines on disk."""
        return iter(self._cluster.lines(attempt, replica, after))

    def forget(self, attempt: str) -> None:
        """The folders stay."""
