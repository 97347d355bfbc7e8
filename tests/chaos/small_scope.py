"""Every state that a small site can reach: jobs, nodes, crashes between any two steps, programs that end in any way at any time.

Breadth first over the pure parts (`settle`, `decide`, `due`, `apply`), with the machines as the simplest of models. Time is
left out: whatever waits for a moment may go on. Most bugs show in a small scope (Jackson, Software Abstractions, 2006).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stoker.core.changes import Cancel, Change, Note, Open, Order, Start
from stoker.core.ids import job_of_attempt
from stoker.core.job import Attempt, Job, Request
from stoker.core.node import Node
from stoker.core.site import Preemption, Site, Victims
from stoker.core.spec import Group, JobSpec, Machine, Program, Retry
from stoker.core.states import FINAL_JOB_STATES, JobState, ReplicaState, Wish
from stoker.core.world import World, apply, tells_news
from stoker.scheduling.due import due
from stoker.scheduling.rules import rules_of
from stoker.scheduling.scheduler import Scheduler

NOW = 1_000_000.0
RULES = rules_of(Site(preemption=Preemption(victims=Victims.NOBODY)))
CODES = {"succeeded": 0, "failed": 1, "crashed": 139, "stopped": 143}
Row = tuple[str, str]  # replica id → "running", or how it has ended


@dataclass(frozen=True, slots=True)
class State:
    """One state of the whole site."""

    jobs: tuple[Job, ...]
    attempts: tuple[Attempt, ...]  # live ones
    machines: tuple[Row, ...]  # what became of every replica that was started, of live attempts
    fences: tuple[str, ...]
    orders: tuple[Order, ...]  # that the server has still to give in this round
    step: int  # of the round: 0 observe, 1 settle and decide, 2 give orders
    crashes: int  # that are still to come
    has_cancelled: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Two states of one key go on alike: what an ended attempt was called or did makes no difference any more."""
        jobs = tuple((job.id, job.state, job.wish, job.failures) for job in self.jobs)
        attempts = tuple(
            (a.job, a.state, a.cause, tuple(r.seen for r in a.replicas), a.placements, a.id in self.fences)
            for a in self.attempts
        )
        machines = tuple((_nameless(replica), fate) for replica, fate in self.machines)
        orders = tuple((type(order), job_of_attempt(order.attempt)) for order in self.orders)
        return jobs, attempts, machines, orders, self.step, self.crashes, self.has_cancelled


class Wrong(AssertionError):
    """A state that must not be, and the way to it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an exhaustive search has seen."""

    states: int
    moves: int


def explore(jobs: int = 3, nodes: int = 2, crashes: int = 2, *, gangs: bool = False) -> Found:
    """Look at every state that can be reached. Raises Wrong with the way to one that must not be, or that leads nowhere."""
    machines = [_node(f"n{n}") for n in range(nodes)]
    first = State(tuple(_job(n, gangs) for n in range(jobs)), (), (), (), (), 0, crashes)
    ways: dict[tuple[object, ...], tuple[tuple[object, ...] | None, str]] = {first.key: (None, "the beginning")}
    before: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    ends: list[tuple[object, ...]] = []
    ask, moves = deque([first]), 0
    while ask:
        state = ask.popleft()
        wrong = _what_is_wrong(state)
        if wrong:
            raise Wrong(f"{wrong}:\n{_way(ways, state.key)}")
        if not state.jobs:
            ends.append(state.key)
        for name, after in _moves(state, machines):
            moves += 1
            before.setdefault(after.key, []).append(state.key)
            if after.key not in ways:
                ways[after.key] = (state.key, name)
                ask.append(after)
    leads_on = set(ends)
    back = deque(ends)
    while back:
        for key in before.get(back.popleft(), ()):
            if key not in leads_on:
                leads_on.add(key)
                back.append(key)
    for key in ways:
        if key not in leads_on:
            raise Wrong(f"from here on not every job can end:\n{_way(ways, key)}")
    return Found(len(ways), moves)


def _moves(state: State, nodes: list[Node]) -> Iterator[tuple[str, State]]:
    """Everything that may happen next."""
    yield from _server(state, nodes)
    if state.crashes and (state.step or state.orders):
        yield "the server dies and starts again", replace(state, crashes=state.crashes - 1, step=0, orders=())
    for replica, fate in state.machines:
        if fate == "running":
            attempt = replica.rpartition("/")[0]
            for end in ("stopped",) if attempt in state.fences else ("succeeded", "failed", "crashed", "lost"):
                yield f"{replica} has {end}", replace(state, machines=_with(state.machines, replica, end))
    if not state.has_cancelled:
        for job in state.jobs:
            yield (
                f"{job.id} is cancelled",
                _after(replace(state, has_cancelled=True), [Cancel(job=job.id, why="", at=NOW)], nodes),
            )


def _server(state: State, nodes: list[Node]) -> Iterator[tuple[str, State]]:
    if state.step == 0:
        yield "the server looks", replace(_after(state, list(_notes(state)), nodes), step=1)
    elif state.step == 1:
        world, scheduler = _world(state, nodes), Scheduler(RULES)
        settled = scheduler.settle(world, NOW)
        for change in settled:
            apply(world, change)
            scheduler.see(change)
        decided = scheduler.decide(world, NOW).changes
        for change in decided:
            if isinstance(change, Open) and world.jobs[change.attempt.job].wish is Wish.CANCEL:
                raise Wrong(f"{change.attempt.job} was cancelled, and gets a place")
        after = _after(state, [*settled, *decided], nodes)
        world = _world(after, nodes)
        orders = due(world, NOW, world.attempts.values())
        yield "the server decides", replace(after, step=2 if orders else 0, orders=tuple(orders))
    else:
        order, *left = state.orders
        given = replace(state, orders=tuple(left), step=2 if left else 0)
        yield f"the server says {order}", _obeyed(given, order)


def _obeyed(state: State, order: Order) -> State:
    """What an engine does: a start finds what is there already, a stop is a fence."""
    if isinstance(order, Start):
        attempt = next((a for a in state.attempts if a.id == order.attempt), None)
        if attempt is None or order.attempt in state.fences:
            return state
        known = dict(state.machines)
        for replica in attempt.replicas:
            known.setdefault(f"{attempt.id}/{replica.role}-{replica.index}", "running")
        return replace(state, machines=tuple(sorted(known.items())))
    return replace(state, fences=tuple(sorted({*state.fences, order.attempt})))


def _notes(state: State) -> Iterator[Note]:
    known = dict(state.machines)
    for attempt in state.attempts:
        for replica in attempt.replicas:
            fate = known.get(f"{attempt.id}/{replica.role}-{replica.index}")
            if fate is None:
                seen = ReplicaState.LOST if attempt.id in state.fences else ReplicaState.NOTHING
            elif fate == "running":
                seen = ReplicaState.UP
            elif fate == "succeeded":
                seen = ReplicaState.SUCCEEDED
            else:
                seen = ReplicaState.LOST if fate == "lost" else ReplicaState.FAILED
            code = CODES.get(fate or "")
            note = Note(attempt=attempt.id, role=replica.role, index=replica.index, seen=seen, at=NOW, exit_code=code)
            if seen is not ReplicaState.NOTHING and tells_news(attempt, note):
                yield note


def _after(state: State, changes: list[Change], nodes: list[Node]) -> State:
    """The state when these are written. What is to happen at a moment may happen at once."""
    world = _world(state, nodes)
    for change in changes:
        apply(world, change)
    over = [
        replica
        for replica, fate in state.machines
        if fate == "running" and replica.rpartition("/")[0] not in world.attempts
    ]
    if over:
        raise Wrong(f"{over} run, and their attempts have ended")
    return replace(
        state,
        jobs=tuple(replace(job, not_before=0.0, waits=None) for _, job in sorted(world.jobs.items())),
        attempts=tuple(attempt for _, attempt in sorted(world.attempts.items())),
        machines=tuple(row for row in state.machines if row[0].rpartition("/")[0] in world.attempts),
        fences=tuple(attempt for attempt in state.fences if attempt in world.attempts),
    )


def _world(state: State, nodes: list[Node]) -> World:
    return World(
        jobs={job.id: job for job in state.jobs},
        attempts={attempt.id: attempt for attempt in state.attempts},
        attempt_of={attempt.job: attempt.id for attempt in state.attempts},
        nodes={node.name: node for node in nodes},
    )


def _what_is_wrong(state: State) -> str:
    held: list[tuple[str, str]] = []
    for attempt in state.attempts:
        held += [(place.node, device) for place in attempt.placements for device in place.devices]
        if len(attempt.placements) != len(attempt.replicas):
            return f"{attempt.id} has not all its places"
    if len(held) != len(set(held)):
        return f"devices are held twice: {held}"
    for job in state.jobs:
        if job.state in FINAL_JOB_STATES:
            return f"{job.id} has ended and lives"
        if (job.state is JobState.ACTIVE) != any(attempt.job == job.id for attempt in state.attempts):
            return f"{job.id} is {job.state}, and its attempts say otherwise"
        if job.failures > job.spec.retry.whole_job:
            return f"{job.id} was tried too often"
    return ""


def _nameless(replica: str) -> str:
    """A replica by its job and name, whichever attempt it is of: of one job only one lives."""
    attempt, _, name = replica.rpartition("/")
    return f"{job_of_attempt(attempt)}/{name}"


def _with(machines: tuple[Row, ...], replica: str, fate: str) -> tuple[Row, ...]:
    return tuple(sorted({**dict(machines), replica: fate}.items()))


def _way(ways: dict[tuple[object, ...], tuple[tuple[object, ...] | None, str]], key: tuple[object, ...]) -> str:
    steps: list[str] = []
    at: tuple[object, ...] | None = key
    while at is not None:
        at, name = ways[at]
        steps.append(f"  {name}")
    return "\n".join(reversed(steps))


def _node(name: str) -> Node:
    return Node(name=name, engine="fake", zone="z", accelerator="T4", devices=("0",), vcpus=8.0, memory_gb=64.0)


def _job(n: int, gangs: bool) -> Job:
    machine = Machine(accelerator="T4", accelerator_milli=1000)
    groups = [Group(role="chief", count=1, machine=machine)]
    if gangs and n == 0:
        groups.append(Group(role="worker", count=1, machine=machine))
    spec = JobSpec(program=Program(command=("true",)), groups=tuple(groups), retry=Retry(whole_job=1))
    return Job(id=f"p/j{n}", spec=spec, request=Request(dialect="", body=""), owner="u", submitted_at=NOW + n)
