"""Whose places one that waits may have, and which of them are enough for its whole gang."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stoker.core.job import Attempt, Job, Placement
from stoker.core.spec import WHOLE_DEVICE_MILLI, Machine
from stoker.core.world import World

from .candidates import Candidates
from .footprints import free_room, room_of
from .free import Indices, Step, Where
from .gang import hunger
from .runners import Kind
from .scheduler_state import SchedulerState
from .usage import Amounts

MOST_MOVES = 3
MOVE_AFTER_SECONDS = 3600.0
"""A gang may move so many smaller jobs to other nodes, of those that have run for an hour: each pays a restart."""

MOST_OPTIONS = 20
"""Nodes that are tried for a gang that others have to be moved for, the cheapest first."""

COST_OF_MOVE, COST_OF_LOSS = 2.0, 1000.0
"""In victims: one that is moved would have been first in line; one that cannot resume loses all that it has done."""


@dataclass(slots=True)
class Cleared:
    """Who has to go, and for what."""

    victims: list[Attempt] = field(default_factory=list)
    moves: list[Attempt] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)  # where room is made

    @property
    def all(self) -> list[Attempt]:
        """All that are asked to stop."""
        return [*self.victims, *self.moves]


@dataclass(slots=True)
class _Option:
    """What it costs to make room for one replica on one node."""

    cost: float
    strength: float  # how soon it would be the victims' turn: of equal costs, those go whose turn is last
    node: int
    victims: list[Attempt]
    moves: list[Attempt]


class Preempter:
    """Looks for victims. Nobody is stopped in vain: the whole gang is placed without them before one is asked to go."""

    def __init__(self, state: SchedulerState, world: World, now: float) -> None:
        self._state = state
        self._rules = state.rules
        self._world = world
        self._free = state.free
        self._usage = state.usage
        self._footprints = state.footprints
        self._runners = state.runners
        self._now = now
        self._candidates = Candidates(state, world, now)
        self._movables: dict[str, list[tuple[int, str, Attempt]]] | None = None  # by node, found when first asked for
        self._movable_by_size: dict[int, NDArray[np.int64]] = {}
        self.opened = 0  # how many have been given their places in this round so far: what is free depends on it
        self._gone_state: object = None
        self._gone_before: list[str] = []
        self._gone_steps: list[Step] = []

    def find(self, job: Job, amounts: Amounts, going: Collection[str]) -> Cleared | None:
        """The cheapest that lets the whole gang in: the fewest, then the largest, then the weakest. None: there is nothing.

        `going`: attempts that are asked already.
        """
        candidates = self._candidates.of(job, amounts, going)
        is_gang = job.spec.accelerator_milli > WHOLE_DEVICE_MILLI
        moves = self._rules.site.defrag and is_gang and self.is_patient(job)
        if not candidates and not moves:
            return None
        for where in self._free.wheres(job.spec):
            cleared = self._clear(job, where, candidates, going, moves)
            if cleared is not None and self._pays_quota(job, amounts, cleared, candidates):
                if cleared.all and self.fits_without(job, amounts, cleared.all, moves=cleared.moves):
                    return cleared
        return None

    def is_patient(self, job: Job) -> bool:
        """Whether it has waited long enough to have others stopped."""
        return self._candidates.is_patient(job)

    @property
    def spared_until(self) -> float:
        """When, by time alone, there may be more for whom it was asked last."""
        return self._candidates.spared_until

    def fits_without(
        self,
        job: Job,
        amounts: Amounts,
        gone: Sequence[Attempt],
        *,
        moves: Iterable[Attempt] = (),
        before: Sequence[Job] = (),
    ) -> set[str] | None:
        """The nodes on which the gang would be if these were gone. None: it would not fit.

        `before`: jobs for which room is being made already, which have theirs first. `moves`: attempts of those that are gone
        that must find room elsewhere.
        """
        mark = self._free.checkpoint()
        places = self._let_go(gone, before) and self._place(job)
        fits = bool(places) and self._place_all(self._world.jobs[move.job] for move in moves)
        self._free.rollback(mark)
        if not places or not fits:
            return None
        with self._usage.without([attempt.id for attempt in gone], self._now):
            if self._usage.exceeded(self._rules.queue(job.spec.queue), amounts) is not None:
                return None
        return {place.node for place in places}

    def nodes_when_gone(self, jobs: Iterable[Job], gone: Iterable[Attempt]) -> dict[str, frozenset[str]]:
        """Where these would be, one after the other, if those were gone; without the ones that would not fit."""
        mark, found = self._free.checkpoint(), dict[str, frozenset[str]]()
        for attempt in gone:
            self._free.release(self._world.jobs[attempt.job].spec, attempt)
        for job in jobs:
            places = self._place(job)
            if places is not None:
                found[job.id] = frozenset(place.node for place in places)
        self._free.rollback(mark)
        return found

    def _let_go(self, gone: Sequence[Attempt], before: Sequence[Job]) -> bool:
        """Release what these hold, and place those. Asked again from the same state for more, it goes on from where it was."""
        free, mark = self._free, self._free.checkpoint()
        state = (self.opened, mark, [attempt.id for attempt in gone])
        if state != self._gone_state or [job.id for job in before[: len(self._gone_before)]] != self._gone_before:
            self._gone_state, self._gone_before, self._gone_steps = state, [], []
            for attempt in gone:
                free.release(self._world.jobs[attempt.job].spec, attempt)
        free.redo(self._gone_steps)
        for job in before[len(self._gone_before) :]:
            if self._place(job) is None:
                self._gone_state = None
                return False
            self._gone_before.append(job.id)
        self._gone_steps = free.since(mark)
        return True

    def _place(self, job: Job) -> tuple[Placement, ...] | None:
        return self._rules.placer.place(job.id, job.spec, self._free)

    def _place_all(self, jobs: Iterable[Job]) -> bool:
        return all(self._place(job) is not None for job in jobs)

    # Room on nodes

    def _clear(
        self, job: Job, where: Where, candidates: dict[str, Attempt], going: Collection[str], may_move: bool
    ) -> Cleared | None:
        """Replica by replica, the hungriest first, the cheapest node. What is cleared for one counts for the next."""
        cleared, free = Cleared(), self._free
        by_node: dict[str, list[Attempt]] = {}
        for attempt in candidates.values():
            for node in self._footprints.nodes(attempt.id):
                by_node.setdefault(node, []).append(attempt)
        mark = free.checkpoint()
        for group in sorted(job.spec.groups, key=hunger, reverse=True):
            nodes = free.candidates(job.spec, group.machine, where.of(group.machine))
            for index in range(group.count):
                option = self._cheapest(job, group.machine, nodes, by_node, cleared, going, may_move)
                if option is None:
                    free.rollback(mark)
                    return None
                for attempt in (*option.victims, *option.moves):
                    free.release(self._world.jobs[attempt.job].spec, attempt)
                cleared.victims += option.victims
                cleared.moves += option.moves
                cleared.nodes.add(free.nodes[option.node].name)
                free.take(option.node, group.role, index, group.machine, job.id)
        free.rollback(mark)
        return cleared

    def _cheapest(
        self,
        job: Job,
        machine: Machine,
        nodes: Indices,
        by_node: dict[str, list[Attempt]],
        cleared: Cleared,
        going: Collection[str],
        may_move: bool,
    ) -> _Option | None:
        fitting = self._free.fitting(machine, job.id, nodes)
        if fitting.size:  # where it fits as it is, the fullest node
            return _Option(0.0, 0.0, int(fitting[self._free.milli[fitting].argmin()]), [], [])
        options: list[_Option] = []
        elsewhere = int(self._free.milli[~self._free.closed].sum()) if may_move else 0
        may_move = elsewhere > 0  # who is moved has to go somewhere
        for node in self._promising(job, machine, nodes, by_node, may_move).tolist():
            on_it = by_node.get(self._free.nodes[node].name, ())
            option = self._option(job, machine, node, on_it, cleared, going, may_move)
            if option is None:
                continue
            if not option.moves or self._milli(option.moves) <= elsewhere - int(self._free.milli[node]):
                options.append(option)
        options.sort(key=lambda option: (option.cost, option.strength, option.node))
        for option in options[:MOST_OPTIONS]:
            if not (option.moves or cleared.moves) or self._can_move(job, machine, option, cleared):
                return option
        return None

    def _promising(
        self, job: Job, machine: Machine, nodes: Indices, by_node: dict[str, list[Attempt]], may_move: bool
    ) -> Indices:
        """The nodes with enough devices, were all gone who might go. It saves looking at the others one by one."""
        free = self._free
        nodes = nodes[~free.closed[nodes]]
        if machine.accelerator_milli < WHOLE_DEVICE_MILLI:
            return np.array([n for n in nodes.tolist() if free.nodes[n].name in by_node], dtype=np.intp)
        most = free.milli.astype(np.int64)
        for name, attempts in by_node.items():
            if name in free.index:
                there = (self._footprints.there(attempt.id, name).device_milli for attempt in attempts)
                most[free.index[name]] += sum(there)
        if may_move:
            most += self._movable_milli(job.spec.accelerator_milli)
        return nodes[most[nodes] >= machine.accelerator_milli]

    def _movable_milli(self, smaller_than_milli: int) -> NDArray[np.int64]:
        """By node, how much the most that may be moved for one gang could free."""
        found = self._movable_by_size.get(smaller_than_milli)
        if found is None:
            found = self._movable_by_size[smaller_than_milli] = np.zeros(len(self._free.nodes), dtype=np.int64)
            self._movable("")
            for name, movable in (self._movables or {}).items():
                if name in self._free.index:
                    sizes = [milli for milli, _, _ in movable if milli < smaller_than_milli]
                    found[self._free.index[name]] = sum(sizes[-MOST_MOVES:])
        return found

    def _can_move(self, job: Job, machine: Machine, option: _Option, cleared: Cleared) -> bool:
        """Whether all that are to be moved find room elsewhere."""
        mark = self._free.checkpoint()
        for attempt in (*option.victims, *option.moves):
            self._free.release(self._world.jobs[attempt.job].spec, attempt)
        self._free.take(option.node, "chief", 0, machine, job.id)
        moves = [self._world.jobs[move.job] for move in (*cleared.moves, *option.moves)]
        moves.sort(key=lambda move: (-move.spec.accelerator_milli, move.id))
        can = all(self._rules.placer.place(move.id, move.spec, self._free) is not None for move in moves)
        self._free.rollback(mark)
        return can

    def _option(
        self,
        job: Job,
        machine: Machine,
        node: int,
        candidates: Iterable[Attempt],
        cleared: Cleared,
        going: Collection[str],
        may_move: bool,
    ) -> _Option | None:
        """Who has to go from one node, the weakest first; then whoever of them need not go is spared."""
        name, footprints = self._free.nodes[node].name, self._footprints
        if 0 < machine.accelerator_milli < WHOLE_DEVICE_MILLI or footprints.is_shared(name):
            return self._option_by_trial(job, machine, node, candidates, cleared)
        need, have = room_of(machine), free_room(self._free, node)
        victims: list[Attempt] = []
        moves: list[Attempt] = []
        for attempt in candidates:
            if have.holds(need):
                break
            if attempt not in cleared.victims:
                victims.append(attempt)
                have = have.plus(footprints.there(attempt.id, name))
        if may_move and have.device_milli < need.device_milli:
            found = self._moves(
                name,
                job.spec.accelerator_milli,
                need.device_milli - have.device_milli,
                MOST_MOVES - len(cleared.moves),
                {*(attempt.id for attempt in victims), *(attempt.id for attempt in cleared.all), *going},
            )
            if found is None:
                return None
            moves = found
            for attempt in moves:
                have = have.plus(footprints.there(attempt.id, name))
        if not have.holds(need):
            return None
        for attempt in reversed(victims[:]):
            without = have.less(footprints.there(attempt.id, name))
            if without.holds(need):
                victims.remove(attempt)
                have = without
        cost = self._cost(victims) + COST_OF_MOVE * len(moves)
        return _Option(cost, self._strength(victims), node, victims, moves)

    def _option_by_trial(
        self, job: Job, machine: Machine, node: int, candidates: Iterable[Attempt], cleared: Cleared
    ) -> _Option | None:
        """An option where devices are shared, found by taking the attempts away one by one."""
        mark, victims = self._free.checkpoint(), list[Attempt]()
        here = np.array([node], dtype=np.intp)
        for attempt in candidates:
            if attempt in cleared.victims:
                continue
            victims.append(attempt)
            self._free.release(self._world.jobs[attempt.job].spec, attempt)
            if self._free.fitting(machine, job.id, here).size:
                self._free.rollback(mark)
                return _Option(self._cost(victims), self._strength(victims), node, victims, [])
        self._free.rollback(mark)
        return None

    def _movable(self, node: str) -> list[tuple[int, str, Attempt]]:
        """Who on a node could be moved elsewhere for a larger gang, the smallest first: milli of devices, id, attempt."""
        if self._movables is None:
            self._movables = {}
            preemption, world = self._rules.site.preemption, self._world
            grown = self._now - max(MOVE_AFTER_SECONDS, preemption.quantum_seconds)
            for attempt_id in self._runners.all_grown:
                attempt = world.attempts[attempt_id]
                if attempt.placed_at > grown or len(attempt.placements) != 1:
                    continue
                job, where = world.jobs[attempt.job], attempt.placements[0].node
                milli = self._footprints.there(attempt_id, where).device_milli
                if milli and job.spec.gives_way and job.preemptions < preemption.budget:
                    self._movables.setdefault(where, []).append((milli, attempt_id, attempt))
            for movable in self._movables.values():
                movable.sort(key=lambda one: one[:2])
        return self._movables.get(node, [])

    def _moves(
        self, node: str, smaller_than_milli: int, lacks_milli: int, most: int, taken: Container[str]
    ) -> list[Attempt] | None:
        """Who is moved off a node to free so much: each time the smallest that closes the gap, or else the largest."""
        able = [one for one in self._movable(node) if one[0] < smaller_than_milli and one[1] not in taken]
        if sum(milli for milli, _, _ in able[-most:]) < lacks_milli:
            return None
        moves: list[Attempt] = []
        while lacks_milli > 0 and able and len(moves) < most:
            at = next((n for n, one in enumerate(able) if one[0] >= lacks_milli), len(able) - 1)
            milli, _, attempt = able.pop(at)
            moves.append(attempt)
            lacks_milli -= milli
        return moves if lacks_milli <= 0 else None

    def _strength(self, victims: Iterable[Attempt]) -> float:
        """How soon it would be their turn, all together: of equal costs, those go whose turn is last.

        What they have suffered already does not count here, so that few are stopped often rather than many now and then.
        """
        return -sum(self._runners.standing(attempt.id) for attempt in victims)

    def _milli(self, attempts: Iterable[Attempt]) -> int:
        """What they hold of devices, all together."""
        return sum(self._world.jobs[attempt.job].spec.accelerator_milli for attempt in attempts)

    def _cost(self, victims: Iterable[Attempt]) -> float:
        """The fewest jobs; of as many, the larger gangs; those that lose all their work only when there is nobody else."""
        cost = 0.0
        for attempt in victims:
            job = self._world.jobs[attempt.job]
            cost += 1.0 - 1e-6 * min(job.spec.accelerator_milli, 500_000)
            if Kind.of(job) is Kind.OTHER:
                cost += COST_OF_LOSS
            elif Kind.of(job) is Kind.PREEMPTIBLE:
                cost -= 0.5
        return cost

    def _pays_quota(self, job: Job, amounts: Amounts, cleared: Cleared, candidates: dict[str, Attempt]) -> bool:
        """Let more go until its quota has it; whether that is so in the end."""
        queue = self._rules.queue(job.spec.queue)

        def over() -> str | None:
            with self._usage.without([attempt.id for attempt in cleared.all], self._now):
                return self._usage.exceeded(queue, amounts)

        for attempt in candidates.values():
            lacks = over()
            if lacks is None:
                return True
            if not self._usage.held_by(attempt.id).get(lacks):
                continue
            theirs = self._rules.queue(self._world.jobs[attempt.job].spec.queue)
            shares = theirs.name == queue.name or (queue.cohort and theirs.cohort == queue.cohort)
            if shares and attempt not in cleared.victims:
                cleared.victims.append(attempt)
        return over() is None
