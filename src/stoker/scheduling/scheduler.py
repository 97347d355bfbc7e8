"""What is kept between decisions, so that each costs what has changed and not what there is.

Whatever is kept follows from the World and the rules; made anew it decides the same. Whoever changes the World tells it by
`see`. Then `settle` says what follows by itself and `decide` who gets a place, each to be carried into the World before the
next is asked; and `due` says what is to be done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stoker.core.changes import (
    Change,
    CordonNode,
    Credit,
    Explain,
    MoveAttempt,
    MoveJob,
    NodeFailed,
    NodeGone,
    NodeSeen,
    Open,
    Order,
    OrderMachines,
    UncordonNode,
    job_of,
)
from stoker.core.job import Attempt, Job, Reason
from stoker.core.states import FINAL_JOB_STATES, AttemptState, JobState, Wish
from stoker.core.world import World

from .agenda import Agenda
from .base import Facts
from .due import due
from .expected_ends import ExpectedEnds
from .explain import HELD, backoff
from .free import Free
from .history import History
from .keys import Keys
from .orders import machines_wanted
from .plan import Plan, stop_for
from .pools import not_there_yet
from .rounds import Round
from .rules import Rules
from .runners import Runners
from .scheduler_state import SchedulerState
from .settle import deadlines, settle
from .usage import Usage, amounts_of
from .waiting import Waiting

UNSETTLED = frozenset({AttemptState.PLACED, AttemptState.STARTING, AttemptState.STOPPING})
STOPPABLE = frozenset({AttemptState.STARTING, AttemptState.RUNNING})


class Scheduler:
    """Decides for one World. Not safe for threads: it belongs to who owns the World."""

    def __init__(
        self,
        rules: Rules,
        *,
        hold: bool = False,
        history: History | None = None,
        teaches: Collection[str] | None = None,
    ) -> None:
        """`teaches`: the placer learns from every job that is new; the ids are of jobs that are not. None: from none."""
        self._rules = rules
        self._hold = hold
        self._taught = None if teaches is None else dict.fromkeys(teaches)  # live jobs that the placer has learned from
        self._history = history or History()
        self._ended: list[tuple[Job, float]] = []  # to be put into the books of past usage
        self._credits: list[Credit] = []  # to be taken out of them
        self._touched: set[str] = set()
        self._nodes_changed = True
        self._agenda = Agenda()  # when time alone demands a look at which job; or, without a name, at all that wait
        self._live: dict[str, Job] = {}  # jobs as last looked at
        self._history.work_out_backlog = self._backlog_seconds
        self._placed_at: dict[str, float] = {}  # attempts that are not up yet
        self._held: dict[str, Attempt] = {}  # job id → the attempt that is in `free` and in the books
        self._unsettled: dict[str, None] = {}
        self._newcomers: dict[str, None] = {}  # who waits and was told no reason yet
        self._is_due = True  # whether anybody may find a place since the last round
        waiting = Waiting()
        self._state = SchedulerState(
            rules=rules,
            free=Free(()),
            usage=Usage(rules.site, ()),
            waiting=waiting,
            keys=Keys(rules, self._history, waiting, self._live),
            runners=Runners(rules, self._history),
            ends=ExpectedEnds(self._history),
            history=self._history,
        )

    def learn(self, ended: Iterable[Job], now: float) -> None:
        """What jobs that have ended teach: run times, and who has used how much. Told once, before the first decision."""
        for job in ended:
            self._history.add(job, job.held_seconds)
            self._history.hazards.end(job, job.held_seconds, now)
            self._ended.append((job, now))

    def learn_spending(self, attempts: Iterable[Attempt], now: float) -> None:
        """What attempts that have ended this month have cost. Told once, before the first decision."""
        self._state.spending.add_all(attempts, now)

    def see(self, change: Change) -> None:
        """The World has changed so."""
        match change:
            case NodeSeen() | NodeGone() | CordonNode() | UncordonNode():
                self._nodes_changed = True
                return
            case NodeFailed():
                self._is_due = True  # of a pool that did not give what was ordered
            case Open():
                self._placed_at[change.attempt.id] = change.attempt.placed_at
            case MoveAttempt(after=AttemptState.RUNNING):
                placed_at = self._placed_at.pop(change.attempt, None)
                if placed_at is not None:
                    self._history.add_overhead(change.at - placed_at)
            case MoveAttempt(after=AttemptState.ENDED):
                self._placed_at.pop(change.attempt, None)
            case Credit():
                self._credits.append(change)
            case MoveJob() if change.after in FINAL_JOB_STATES and change.held_seconds:
                self._remember(change)
        self._touched.add(job_of(change))

    def settle(self, world: World, now: float) -> list[Change]:
        """What follows by itself from what was seen, whoever else waits."""
        self._note_due(world, now)
        changes: list[Change] = []
        for job_id in sorted(self._touched):
            job = world.jobs.get(job_id)
            if job is not None:
                changes += settle(world, job, now)
        return changes

    def decide(self, world: World, now: float) -> Plan:
        """Who is placed, who is stopped for whom, and why the rest waits."""
        looked_at = self._catch_up(world, now)
        changes: list[Change] = []
        waits: dict[str, Reason] = {}
        if self._hold or not self._rules.site.pools:  # what was ordered in other times
            old = [job for job in self._newcomers if world.jobs[job].ordered is not None]
            changes += [OrderMachines(job=job, ordered=None) for job in old]
        if self._hold:
            waits = dict.fromkeys(sorted(self._newcomers), HELD)
        elif (self._is_due or self._newcomers) and len(self._state.waiting):
            self._state.keys.outdate(now)
            found = Round(self._state, world, now).run(self._newcomers)
            waits = found.waits
            changes += [*found.opens, *found.orders]
            for attempt, whom in found.victims:
                changes += stop_for(attempt, whom, now)
            self._is_due = found.goes_on  # then once more
            if found.look_again_at is not None:
                self._agenda.put(found.look_again_at, "")
        if not len(self._state.waiting):
            self._state.want_no_machines()
        waits |= self._pauses(world, looked_at, now)
        self._newcomers.clear()
        changes += [
            Explain(job=job_id, reason=reason) for job_id, reason in waits.items() if world.jobs[job_id].waits != reason
        ]
        return Plan(changes=tuple(changes), waits=waits)

    def wanted(self, world: World) -> dict[str, int]:
        """For each of the site's pools, how many machines there is reason for."""
        return machines_wanted(self._state, world)

    @property
    def is_due(self) -> bool:
        """Whether one more decision may find more, though nothing happens."""
        return (self._is_due and len(self._state.waiting) > 0) or self._nodes_changed

    def order(self, world: World, now: float) -> list[str]:
        """The ids of all that wait, in the order in which they are looked at, as if each got what it wants in its turn."""
        self._catch_up(world, now)
        usage, found = self._state.usage, []
        walk = self._state.waiting.round(self._state.standing(now), self._state.keys.work_out)
        for sharer, job_id, _ in walk:
            spec = world.jobs[job_id].spec
            usage.hold(f"{job_id}?", spec.queue, sharer, self._state.shapes.of(spec).amounts, now)
            found.append(job_id)
            walk.next_of_shape()
        for job_id in found:
            usage.release(f"{job_id}?", now)
        return found

    def due(self, world: World, now: float) -> list[Order]:
        """What the written state now demands of the engines."""
        for job_id in sorted(self._touched):
            self._note_unsettled(world, job_id)
        return due(world, now, [world.attempts[a] for a in self._unsettled if a in world.attempts])

    def next_deadline(self) -> float | None:
        """When time alone will next demand a look, in seconds since the epoch. None: never."""
        return self._agenda.next_at

    @property
    def taught(self) -> Collection[str]:
        """The live jobs from which the placer has learned."""
        return self._taught or ()

    @property
    def state(self) -> SchedulerState:
        """What is free, who waits and who holds what, as of the last decision: to explain it."""
        return self._state

    # Following the World

    def _catch_up(self, world: World, now: float) -> set[str]:
        """Bring what is kept up to the World. Returns the jobs that have changed."""
        self._note_due(world, now)
        if self._ended:
            self._remember_usage()
        if self._credits:
            self._credit(world, now)
        if self._nodes_changed:
            self._rebuild(world, now)
        changed, self._touched = self._touched, set()
        for job_id in sorted(changed):
            self._follow(world, job_id, now)
        self._state.free.settle()
        return changed

    def _note_due(self, world: World, now: float) -> None:
        """What is to be looked at because its time has come, or because the nodes are others."""
        for job_id in self._agenda.due(now):
            if job_id:
                self._touched.add(job_id)
            self._is_due = True
        if self._nodes_changed:
            self._touched |= world.jobs.keys() | self._live.keys()

    def _remember_usage(self) -> None:
        """Put into the books what ended jobs have held: they belong to the past usage of who has a share."""
        usage = self._state.usage
        for job, now in self._ended:
            if job.ended_at is not None:
                sharer = usage.sharer(job.spec.queue, job.owner)
                amounts = self._state.shapes.of(job.spec).amounts
                held = max(0.0, job.held_seconds - job.credited_seconds)
                usage.remember(sharer, amounts, job.ended_at - held, job.ended_at, now)
        self._ended.clear()

    def _credit(self, world: World, now: float) -> None:
        """What a job has lost by the site's fault counts no more against who has its share."""
        for credit in self._credits:
            job = world.jobs.get(credit.job)
            if job is not None:
                sharer = self._state.usage.sharer(job.spec.queue, job.owner)
                amounts = self._state.shapes.of(job.spec).amounts
                self._state.usage.credit(sharer, amounts, credit.seconds, credit.until, now)
                self._is_due = True
        self._credits.clear()

    def _rebuild(self, world: World, now: float) -> None:
        """The nodes are others: what is free is counted anew."""
        self._nodes_changed = False
        self._is_due = True
        state = self._state
        usable = [node for node in world.nodes.values() if world.takes_work(node)]
        coming = not_there_yet(self._rules.site, world.nodes.values())
        state.take_nodes(usable, coming)
        state.usage.count_nodes([*world.nodes.values(), *coming])
        for attempt in self._held.values():
            job = self._live[attempt.job]
            state.free.hold(job.spec, attempt)
            if not state.shapes.of(job.spec).is_definite:  # of what type its devices are, the nodes say
                amounts = amounts_of(job.spec, attempt.placements, world.nodes)
                state.usage.release(attempt.id, now)
                sharer = state.usage.sharer(job.spec.queue, job.owner)
                state.usage.hold(attempt.id, job.spec.queue, sharer, amounts, now)

    def _follow(self, world: World, job_id: str, now: float) -> None:
        """Bring what is kept of one job up to the World."""
        job, attempt = world.jobs.get(job_id), world.attempt(job_id)
        held = self._held.get(job_id)
        if held is not None and (attempt is None or attempt.id != held.id):
            self._give_back(self._live[job_id], held, now)
        if attempt is not None and job is not None:
            self._hold_for(world, job, attempt, now)
        self._note_unsettled(world, job_id)
        if job is None:
            self._live.pop(job_id, None)
            self._agenda.drop(job_id)
            self._history.forget(job_id)
            if self._taught:
                self._taught.pop(job_id, None)
            self._wait_no_more(job_id)
            return
        self._live[job_id] = job
        self._teach(job)
        self._history.hazards.follow(job, attempt)
        later = [moment for moment in deadlines(world, job, attempt) if moment > now]
        if later:
            self._agenda.put(min(later), job_id)
        wants = job.state is JobState.QUEUED and job.wish is Wish.RUN and job.not_before <= now
        if not wants:
            self._wait_no_more(job_id)
        elif job_id not in self._state.waiting:
            self._let_wait(job, now)

    def _backlog_seconds(self, now: float) -> float:
        """Expected device-seconds that are left of all live jobs, by the site's devices."""
        left = 0.0
        for job in self._live.values():
            facts = Facts(job, self._held.get(job.id), now, self._history)
            left += facts.gpus * (self._history.remaining_seconds(job, facts.ran_seconds) or 0.0)
        return left / max(1, int(self._state.free.device_count.sum()))

    def _teach(self, job: Job) -> None:
        """Let the placer learn what is asked for here, each job once."""
        if self._taught is not None and job.id not in self._taught and not job.spec.pool:
            self._rules.placer.learns(job.spec)
            if job.ended_at is None:
                self._taught[job.id] = None

    def _let_wait(self, job: Job, now: float) -> None:
        state = self._state
        sharer = state.usage.sharer(job.spec.queue, job.owner)
        state.waiting.add(job, sharer, state.shapes.of(job.spec), state.keys.of(job, now))
        self._newcomers[job.id] = None

    def _wait_no_more(self, job_id: str) -> None:
        """Who stood behind it may find a place now."""
        if job_id in self._state.waiting:
            self._state.forget_waiting(job_id)
            self._newcomers.pop(job_id, None)
            self._is_due = self._is_due or job_id not in self._held

    def _hold_for(self, world: World, job: Job, attempt: Attempt, now: float) -> None:
        state = self._state
        if job.id not in self._held:
            state.free.hold(job.spec, attempt)
            shape = state.shapes.of(job.spec)
            amounts = shape.amounts if shape.is_definite else amounts_of(job.spec, attempt.placements, world.nodes)
            state.footprints.add(job.spec, attempt)
            state.usage.hold(attempt.id, job.spec.queue, state.usage.sharer(job.spec.queue, job.owner), amounts, now)
        self._held[job.id] = attempt
        state.ends.follow(job, attempt)
        if attempt.state is AttemptState.STOPPING or attempt.asked is not None:
            self._is_due = self._is_due or attempt.id not in state.stopping
            state.stopping[attempt.id] = None
            state.runners.discard(attempt.id)
        elif attempt.state in STOPPABLE:
            grown_at = attempt.placed_at + self._rules.site.preemption.quantum_seconds
            if attempt.id not in state.runners and len(state.waiting):
                if grown_at <= now:
                    self._is_due = True  # it may be a victim from now on
                else:
                    self._agenda.put(grown_at, "")
            state.runners.add(job, attempt)

    def _give_back(self, job: Job, attempt: Attempt, now: float) -> None:
        state = self._state
        state.free.release(job.spec, attempt)
        state.given_back += 1
        state.usage.release(attempt.id, now)
        state.spending.add(attempt, now)
        state.footprints.discard(attempt.id)
        state.ends.discard(attempt.id)
        state.runners.discard(attempt.id)
        state.stopping.pop(attempt.id, None)
        self._unsettled.pop(attempt.id, None)
        del self._held[job.id]
        self._is_due = True

    def _note_unsettled(self, world: World, job_id: str) -> None:
        attempt = world.attempt(job_id)
        if attempt is not None:
            if attempt.state in UNSETTLED:
                self._unsettled[attempt.id] = None
            else:
                self._unsettled.pop(attempt.id, None)

    def _remember(self, change: MoveJob) -> None:
        job = self._live.get(change.job)
        if job is not None:
            ran_seconds = job.held_seconds + change.held_seconds
            self._history.add(job, ran_seconds)
            self._history.hazards.end(job, ran_seconds, change.at)

    def _pauses(self, world: World, changed: set[str], now: float) -> dict[str, Reason]:
        """Why those wait whose time has not come."""
        found = {}
        for job_id in sorted(changed):
            job = world.jobs.get(job_id)
            if job is not None and job.state is JobState.QUEUED and job.wish is Wish.RUN and now < job.not_before:
                found[job_id] = HELD if self._hold else backoff(job)
        return found
