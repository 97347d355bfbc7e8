"""What jobs ask for, learnt as they come: how often each kind of replica was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.core.spec import JobSpec, Machine
from stoker.scheduling.free import memory_mib, vcpus_milli

FIRST = 32
"""After so many replicas it is learnt from them for the first time, then each time that they have doubled."""

EVERY = 1024
"""But never after more replicas than these."""

HALF_LIFE = 4096
"""After so many more replicas one counts half."""

FORGOTTEN = 1e-3
"""What counts less than so much of a replica is gone."""

MOST_KINDS = 4096
"""Of more kinds of replicas the rarer half is forgotten."""


class Ask(NamedTuple):
    """What a replica asks of one node. Equal ones are counted together."""

    vcpus_milli: int
    memory_mib: int
    devices: int
    each_milli: int  # of every device
    accelerators: tuple[str, ...]  # the types that it takes; empty: any
    region: str
    pool: str


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What was asked for until some moment. It never changes: what is learnt later is another one."""

    weights: Mapping[Ask, float] = field(default_factory=dict)
    guess: float = 1.0  # how much the first guess still counts, that stands for what nobody has asked for yet

    @classmethod
    def of(cls, specs: Iterable[JobSpec]) -> Demand:
        """The demand of jobs that are all known and count alike."""
        weights: Counter[Ask] = Counter()
        for spec in specs:
            for group in spec.groups:
                weights[ask_of(group.machine, spec)] += group.count
        return cls(dict(weights), guess=0.0 if weights else 1.0)


class Learner:
    """Counts what jobs ask for. The demand follows from the jobs that it was told of, in their order, and nothing else."""

    def __init__(self) -> None:
        self.demand = Demand()
        self._weights: dict[Ask, float] = {}
        self._guess = 1.0
        self._told = self._renewed_at = 0  # replicas
        self._renews_at = FIRST

    def add(self, spec: JobSpec) -> None:
        """A job is there. To be told once of each."""
        for group in spec.groups:
            ask = ask_of(group.machine, spec)
            self._weights[ask] = self._weights.get(ask, 0.0) + group.count
            self._told += group.count
        if self._told >= self._renews_at:
            self.renew()

    def renew(self) -> None:
        """Let the demand be all that was counted until now."""
        if len(self._weights) > MOST_KINDS:
            ranked = sorted(self._weights.items(), key=lambda item: (-item[1], item[0]))
            self._weights = dict(ranked[: MOST_KINDS // 2])
        self.demand = Demand(dict(self._weights), self._guess)
        fades = 0.5 ** ((self._told - self._renewed_at) / HALF_LIFE)
        self._weights = {ask: weight * fades for ask, weight in self._weights.items() if weight * fades > FORGOTTEN}
        self._guess = self._guess * fades if self._guess * fades > FORGOTTEN else 0.0
        self._renewed_at = self._told
        self._renews_at = self._told + min(max(self._told, FIRST), EVERY)


def ask_of(machine: Machine, spec: JobSpec) -> Ask:
    """What a replica on this machine asks for."""
    return Ask(
        vcpus_milli=vcpus_milli(machine.vcpus),
        memory_mib=memory_mib(machine.memory_gb),
        devices=machine.accelerators,
        each_milli=machine.milli_of_each,
        accelerators=machine.accelerator_choices if machine.accelerator_milli else (),
        region=spec.region,
        pool=spec.pool,
    )
