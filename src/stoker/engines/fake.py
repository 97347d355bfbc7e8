"""An engine without processes, stricter than the world: it owns its devices, lingers on stop, and refuses a busy one.

Tests drive it by hand: nothing happens in it unless they say so. On a node that is cut off replicas run on unseen, and hold their
devices; with a clock, they end themselves when their lease is over, as real ones do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.clock import Clock, ManualClock
from stoker.core.copies import replace
from stoker.core.errors import EngineError
from stoker.core.ids import replica_name
from stoker.core.job import Attempt
from stoker.core.launch import Launch
from stoker.core.node import Node, NodeState
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState, Standing
from stoker.runtime.exits import LEASE_OVER

from .base import Refusal, Request, Seen


@dataclass(slots=True)
class _Gang:
    """What the engine has of one attempt."""

    devices: list[tuple[str, str]] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)  # replica → where it is
    lease_seconds: float = 0.0
    states: dict[str, ReplicaState] = field(default_factory=dict)
    exit_codes: dict[str, int] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    signs: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # with the lines that bear them
    lines: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    stopping: bool = False


class FakeEngine:
    """Implements Engine in memory."""

    def __init__(self, nodes: Sequence[Node], clock: Clock | None = None) -> None:
        self._clock = clock or ManualClock()
        self._cut_off: dict[str, float] = {}  # node → since when
        self._nodes = list(nodes)
        self._shown = tuple(nodes)
        self._gangs: dict[str, _Gang] = {}
        self.started: list[str] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.wishes: list[Mapping[str, int]] = []  # machines of each pool, as it was told, where that was news
        self._refusals: list[Refusal] = []

    def nodes(self) -> Sequence[Node]:
        """The nodes it was given. One that is cut off is DOWN."""
        found = tuple(replace(n, state=NodeState.DOWN) if n.name in self._cut_off else n for n in self._nodes)
        if found != self._shown:
            self._shown = found
        return self._shown

    def want(self, machines: Mapping[str, int]) -> None:
        """Kept for the test, which lets them come (`join`) and go (`leave`)."""
        if machines != self.wanted:
            self.wishes.append(dict(machines))

    @property
    def wanted(self) -> Mapping[str, int]:
        """Machines of each pool, as it was last told."""
        return self.wishes[-1] if self.wishes else {}

    def refuse(self, pool: str, why: str) -> None:
        """An order of a pool fails."""
        self._refusals.append(Refusal(pool=pool, why=why))

    def refusals(self) -> Sequence[Refusal]:
        """What was refused since this was asked last."""
        told, self._refusals = self._refusals, []
        return told

    def join(self, *nodes: Node) -> None:
        """Add nodes: they are there from now on."""
        self._nodes += nodes

    def leave(self, *names: str) -> None:
        """Take nodes away: they are there no more."""
        self._nodes = [node for node in self._nodes if node.name not in names]

    def render(self, launch: Launch) -> Request:
        """Node, devices and lease of every replica."""
        return Request(
            attempt=launch.attempt,
            replicas={
                replica_name(r.role, r.index): {
                    "node": r.node,
                    "devices": list(r.devices),
                    "command": list(r.command),
                    "lease_seconds": launch.lease_seconds,
                }
                for r in launch.replicas
            },
        )

    def start(self, request: Request) -> None:
        """Every replica is STARTING. A device that another attempt holds is refused, and a node that does not answer."""
        self._end_leases()
        gang = self._gangs.setdefault(request.attempt, _Gang())
        if gang.stopping or gang.states:
            return
        silent = sorted({str(r["node"]) for r in request.replicas.values()} & self._cut_off.keys())
        if silent:
            raise EngineError(f"{silent} do not answer")
        devices = [(str(r["node"]), str(d)) for r in request.replicas.values() for d in r["devices"]]
        for holder, other in self._gangs.items():
            taken = set(other.devices) & set(devices)
            if holder != request.attempt and taken:
                raise EngineError(f"{sorted(taken)} are busy with {holder}")
        gang.devices = devices
        gang.nodes = {name: str(r["node"]) for name, r in request.replicas.items()}
        gang.lease_seconds = max((float(r["lease_seconds"]) for r in request.replicas.values()), default=0.0)
        gang.states = dict.fromkeys(request.replicas, ReplicaState.STARTING)
        self.started.append(request.attempt)

    def stop(self, attempt: str, *, force: bool) -> None:
        """A fence. What runs and can be reached lingers until the test says `gone`, or until it is forced."""
        gang = self._gangs.setdefault(attempt, _Gang())
        gang.stopping = True
        if force or not gang.states:
            self.gone(attempt)

    def ask(self, attempt: str, request: Mapping[str, Any]) -> None:
        """Remembered, for the test."""
        self.asked.append((attempt, dict(request)))

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """The states that the test has set, but for replicas on nodes that are cut off."""
        self._end_leases()
        return {
            a.id: [
                self._seen(a.id, r.role, r.index)
                for r in a.replicas
                if r.seen not in FINAL_REPLICA_STATES and self._answers(a.id, replica_name(r.role, r.index))
            ]
            for a in attempts.values()
        }

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines that the test has written."""
        lines = self._gangs.get(attempt, _Gang()).lines.get(replica, [])
        return iter([line for line in lines if int(line["n"]) > after])

    def forget(self, attempt: str) -> None:
        """Nothing to give back."""

    def set(
        self,
        attempt: str,
        state: ReplicaState,
        *replicas: str,
        exit_code: int | None = None,
        sign: str = "",
        evidence: str = "",
        place: str = "",
        standing: Standing = Standing.GOING,
    ) -> None:
        """The test's hand: these replicas (none named: all) are now so. The devices are free when all have ended."""
        gang = self._gangs[attempt]
        for name in replicas or list(gang.states):
            if gang.states[name] not in FINAL_REPLICA_STATES:
                gang.states[name] = state
                if exit_code is not None:
                    gang.exit_codes[name] = exit_code
                gang.standings[name] = standing
                if sign or evidence or place:
                    gang.signs[name] = (sign, evidence, place)
        if all(s in FINAL_REPLICA_STATES for s in gang.states.values()):
            gang.devices = []

    def gone(self, attempt: str) -> None:
        """The test's hand: whatever still ran of a stopping attempt, and was told so, has ended."""
        gang = self._gangs[attempt]
        told = [name for name in gang.states if self._answers(attempt, name)]
        if gang.stopping and told:
            self.set(attempt, ReplicaState.FAILED, *told, exit_code=143)

    def cut_off(self, node: str) -> None:
        """The test's hand: nobody reaches this node any more, and it reaches nobody. What runs there runs on, for now."""
        self._cut_off.setdefault(node, self._clock.now())

    def comes_back(self, node: str) -> None:
        """The test's hand: it is reached again, with what still runs there."""
        self._end_leases()
        self._cut_off.pop(node, None)

    def running(self, attempt: str) -> list[str]:
        """The replicas that run in truth, seen or not."""
        self._end_leases()
        gang = self._gangs.get(attempt, _Gang())
        return [name for name, state in gang.states.items() if state not in FINAL_REPLICA_STATES]

    def stopping(self) -> list[str]:
        """The attempts that linger."""
        return [a for a, g in self._gangs.items() if g.stopping and set(g.states.values()) - FINAL_REPLICA_STATES]

    def _answers(self, attempt: str, replica: str) -> bool:
        """Whether a replica can be asked."""
        gang = self._gangs.get(attempt)
        return gang is None or gang.nodes.get(replica) not in self._cut_off

    def _end_leases(self) -> None:
        """What is cut off for as long as its lease ends itself."""
        for node, since in self._cut_off.items():
            for attempt, gang in self._gangs.items():
                if gang.lease_seconds and self._clock.now() >= since + gang.lease_seconds:
                    mine = [name for name, where in gang.nodes.items() if where == node]
                    if mine:
                        self.set(attempt, ReplicaState.LOST, *mine, sign=LEASE_OVER)

    def _seen(self, attempt: str, role: str, index: int) -> Seen:
        gang = self._gangs.get(attempt)
        name = replica_name(role, index)
        if gang is None:
            return Seen(role=role, index=index, state=ReplicaState.NOTHING)
        if not gang.states:
            state = ReplicaState.LOST if gang.stopping else ReplicaState.NOTHING
            return Seen(role=role, index=index, state=state)
        state = gang.states[name]
        code = gang.exit_codes.get(name, 0 if state is ReplicaState.SUCCEEDED else None)
        sign, evidence, place = gang.signs.get(name, ("", "", ""))
        standing = gang.standings.get(name, Standing.GOING)
        return Seen(
            role=role,
            index=index,
            state=state,
            exit_code=code,
            sign=sign,
            evidence=evidence,
            place=place,
            standing=standing,
        )
