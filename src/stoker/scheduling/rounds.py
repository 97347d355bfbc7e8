"""One round over all that wait: who is placed, who is stopped for whom, and why the rest waits on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.core.changes import NodeFailed, Open, OrderMachines
from stoker.core.copies import replace
from stoker.core.job import Attempt, Job, Placement, Reason
from stoker.core.site import Backfill, Queue
from stoker.core.spec import WHOLE_DEVICE_MILLI
from stoker.core.world import World

from . import explain
from .base import Facts
from .blocked_heads import BlockedHeads
from .candidates import AN_INSTANT_SECONDS
from .costs import hourly_costs
from .orders import Orders
from .outcome import BEHIND, MAKING_ROOM, NO_ROOM, RESERVED, Blocked, Outcome
from .plan import new_attempt
from .preempt import Cleared, Preempter
from .scheduler_state import SchedulerState
from .shapes import Shape, of_type
from .usage import Amounts, amounts_of

TURN_SECONDS = 60.0
"""So often at the most it is looked again who may be stopped, if only time has passed."""

AGES_SECONDS = 600.0
"""By time alone jobs come to be movable: so often that is looked at."""

MOST_TRIES = 100
"""So many that wait without holding back the next of their shape are passed in one round."""


@dataclass(slots=True)
class Found:
    """What a round has found."""

    opens: list[Open] = field(default_factory=list)
    orders: list[OrderMachines | NodeFailed] = field(default_factory=list)
    victims: list[tuple[Attempt, str]] = field(default_factory=list)  # each with the job for which it is stopped
    waits: dict[str, Reason] = field(default_factory=dict)
    goes_on: bool = False  # one more round may find more: what was given to one may bring others before those that wait
    look_again_at: float | None = None  # when time alone may change the outcome


class Round:
    """One walk. It takes places as it goes and gives them back at the end: what counts is what is written."""

    def __init__(self, state: SchedulerState, world: World, now: float) -> None:
        self._state = state
        self._rules = state.rules
        self._world = world
        self._now = now
        self._found = Found()
        self._heads = BlockedHeads(state, world, now, self._look_again)
        self._full: dict[tuple[str, Shape], Blocked] = {}  # (queue, shape) → why nobody of it is placed in this round
        self._booked: list[str] = []
        self._going = dict(state.stopping)  # attempts that are about to give back what they hold
        self._claims = dict(state.claims)  # job id → nodes on which room is being made for it
        self._short: dict[str, set[str]] = {}  # queue → resources that are kept for the first of it
        self._no_room_when_gone: dict[tuple[str, Shape], int] = {}  # (queue, shape) → while so many are going
        self._preempter = Preempter(state, world, now)
        self._orders = Orders(state, world, now, self._look_again)

    def run(self, newcomers: Iterable[str]) -> Found:
        """Walk through all that wait."""
        state, mark = self._state, self._state.free.checkpoint()
        handled = self._keep_orders(self._keep_promises())
        walk = state.waiting.round(state.standing(self._now), state.keys.work_out)
        tries = MOST_TRIES
        for sharer, job_id, shape in walk:
            if job_id in handled:
                walk.next_of_shape()
                continue
            job = self._world.jobs[job_id]
            outcome = self._consider(job, sharer, shape)
            if outcome is None:
                walk.next_of_shape()
                continue
            self._found.waits[job_id] = outcome.reason
            self._full.setdefault((job.spec.queue, shape), outcome)
            if outcome.outcome.lets_others_try and tries:
                tries -= 1
                walk.next_of_shape()
        state.claims = {job: nodes for job, nodes in self._claims.items() if job in self._found.waits}
        has_cohorts = any(queue.cohort for queue in self._rules.site.queues.values())  # who has got more may owe it
        moves_turns = bool(self._heads.blocks or self._short or self._claims or has_cohorts)
        orders_on = not tries and self._orders.has_ordered_more
        self._found.goes_on = bool(self._found.victims or (self._found.opens and moves_turns) or orders_on)
        self._tell(newcomers)
        self._look_for_turns()
        opened = {change.attempt.job for change in self._found.opens}
        self._found.orders = self._orders.end(job for job in state.waiting if job not in opened)
        state.free.reopen()
        state.free.rollback(mark)
        for attempt in self._booked:
            state.usage.release(attempt, self._now)
        return self._found

    def _keep_promises(self) -> set[str]:
        """Place first the jobs for which others have been stopped: what has become free for them is theirs.

        Otherwise one that was stopped could take its own place back, if it stands before the one for which it was stopped.
        """
        if not self._claims:
            return set()
        waiting, jobs = self._state.waiting, self._world.jobs
        promised = [jobs[job] for job in self._claims if job in waiting]  # whom it was promised first comes first
        going = [self._world.attempts[attempt] for attempt in self._going]
        self._claims = self._preempter.nodes_when_gone(promised, going)
        handled, theirs = set[str](), set[str]()
        for job in promised:
            self._state.free.reopen()  # those behind it keep it from nothing: or two on one node would wait for each other
            self._state.free.close(theirs)
            mark = self._state.free.checkpoint()
            places = self._place(job)
            shape = waiting.shape(job.id)
            over = self._state.usage.exceeded(self._rules.queue(job.spec.queue), shape.amounts)
            if places is not None and over is not None:
                self._state.free.rollback(mark)
            elif places is not None and self._open(job, shape, places, waiting.sharer(job.id), mark) is None:
                handled.add(job.id)
                continue
            if job.id in self._claims and going:
                self._found.waits[job.id] = explain.making_room()
                handled.add(job.id)
                theirs |= self._claims[job.id]
            else:  # all have gone, and yet it has no place: it stands where it stood
                self._claims.pop(job.id, None)
        self._close(())
        return handled

    def _keep_orders(self, handled: set[str]) -> set[str]:
        """Place next the jobs for which machines are on their way: those that have come are theirs. Returns whom not to look at.

        Of machines that were always there they have only what they had when it was their turn.
        """
        for job in self._orders.ordered_before(self._state.waiting) if self._rules.site.pools else ():
            if job.id in handled:
                continue
            shape, sharer = self._state.waiting.shape(job.id), self._state.waiting.sharer(job.id)
            if self._orders.is_blind and job.waits is not None:
                self._found.waits[job.id] = self._orders.keep(job, job.waits)
                handled.add(job.id)
            elif self._state.usage.exceeded(self._rules.queue(job.spec.queue), shape.amounts) is None:
                self._close((), job)
                self._state.free.close_of_pools(False, but=self._state.claimed.get(job.id, ()))
                outcome = self._place_or_order(job, shape, sharer)
                if outcome is None or outcome.outcome is Outcome.ORDERED:
                    handled.add(job.id)
                    self._found.waits |= {} if outcome is None else {job.id: outcome.reason}
        self._close(())
        return handled

    def _place_or_order(self, job: Job, shape: Shape, sharer: str) -> Blocked | None:
        """Open a job on what is free (None), or let it count on machines that come, or say why neither."""
        mark = self._state.free.checkpoint()
        places = self._place(job)
        if places is None:
            return self._order(job, shape, sharer) or NO_ROOM
        outcome = self._open(job, shape, places, sharer, mark)
        if outcome is not None and outcome.outcome is Outcome.OVER_BUDGET:
            self._state.free.close_of_pools(True)  # what costs nothing it may have
            mark, places = self._state.free.checkpoint(), self._place(job)
            return outcome if places is None else self._open(job, shape, places, sharer, mark)
        return outcome

    def _order(self, job: Job, shape: Shape, sharer: str) -> Blocked | None:
        """Let it count on machines that are to come. None: no pool is for it. The reason may be that it cannot."""
        if not self._rules.site.pools:
            return None
        if shape.is_definite or not self._rules.queue(job.spec.queue).quotas:
            choices = [job.spec]
        else:  # of which type they will be counts for its queue
            types = {pool.accelerator for pool in self._rules.site.pools.values() if pool.accelerator}
            choices = [of_type(job.spec, name) for name in sorted(types)]
        first: Blocked | None = None
        for spec in choices:
            amounts = amounts_of(spec)
            if self._state.usage.exceeded(self._rules.queue(spec.queue), amounts) is None:
                outcome = self._orders.order(replace(job, spec=spec))
                if outcome is not None and outcome.outcome is Outcome.ORDERED:
                    self._state.usage.hold(f"{job.id}?", spec.queue, sharer, amounts, self._now)
                    self._booked.append(f"{job.id}?")
                    return outcome
                first = first or outcome
        return first

    def _consider(self, job: Job, sharer: str, shape: Shape) -> Blocked | None:
        """Place a job (None), or say why not."""
        full = self._full.get((job.spec.queue, shape))
        if full is not None and not full.outcome.lets_others_try:
            return full.of_the_next
        state = (self._preempter.opened, sum(map(len, self._short.values())))
        if not self._claims and self._heads.keep_out(job, shape, state):
            return RESERVED
        if not self._state.could_ever_fit(job, shape):
            reason = self._state.why_impossible(shape, lambda: explain.impossible(job.spec, self._world, self._rules))
            return Blocked(Outcome.IMPOSSIBLE, reason)
        blocks = [b for b in self._heads.blocks if b.shape.competes(shape) and not self._heads.passes(job, shape, b)]
        if any(block.reservation is None for block in blocks):
            return BEHIND
        # 1. What its queue may hold.
        queue, amounts = self._rules.queue(job.spec.queue), shape.amounts
        if any(amounts.get(resource) for resource in self._short.get(queue.name, ())):
            return BEHIND
        over = self._state.usage.exceeded(queue, amounts)
        if over is not None:
            if self._make_room(job, amounts):
                return MAKING_ROOM
            self._keep_quota(job, shape, queue, over)
            lent = self._state.usage.is_within_its_own(queue, amounts)
            return Blocked(Outcome.OVER_QUOTA, explain.over_quota(queue, over, is_lent=lent))
        # 2. A place for the whole gang, out of the way of those before it.
        if blocks or self._claims:
            self._close(self._heads.kept_from(job, blocks), job)
        outcome = self._place_or_order(job, shape, sharer)
        if outcome is not None and outcome.outcome is Outcome.OVER_BUDGET and not blocks:
            self._heads.put_unpaid(job, shape)
        self._close(())
        if outcome is None or outcome.outcome in (Outcome.ORDERED, Outcome.OVER_BUDGET, Outcome.OVER_QUOTA):
            return outcome
        if any(block.reservation for block in blocks):
            if not (self._claims or self._rules.site.pools):
                self._heads.note_kept_out(job, shape, state)
            return RESERVED
        # 3. Nothing free: room that is being made, or could be.
        if self._make_room(job, amounts):
            return MAKING_ROOM
        if outcome is not NO_ROOM:
            return outcome
        if not blocks:
            self._heads.put(job, shape)
        reason = self._state.why_no_room(shape, lambda: explain.no_room(job.spec, self._world))
        return Blocked(Outcome.NO_ROOM, reason)

    def _place(self, job: Job) -> tuple[Placement, ...] | None:
        """Places for the gang: away from nodes that were to blame before, if there is room now; else anywhere."""
        free, placer = self._state.free, self._rules.placer
        avoided = free.close(job.avoid)
        places = placer.place(job.id, job.spec, free)
        free.reopen(avoided)
        return placer.place(job.id, job.spec, free) if places is None and avoided else places

    def _keep_quota(self, job: Job, shape: Shape, queue: Queue, resource: str) -> None:
        """Let nobody of its queue take what the first of them lacks: in strict order always, else when it has waited long."""
        if self._state.never_may(
            queue, shape
        ):  # its queue has been given less since it was submitted: nobody waits for that
            return
        overdue_at = job.queued_since + self._rules.site.head_seconds
        if self._rules.site.backfill is Backfill.STRICT or self._now >= overdue_at:
            self._short.setdefault(queue.name, set()).add(resource)
        else:
            self._look_again(overdue_at)

    def _open(self, job: Job, shape: Shape, places: tuple[Placement, ...], sharer: str, mark: int) -> Blocked | None:
        amounts = shape.amounts
        if not shape.is_definite:
            amounts = amounts_of(job.spec, places, self._world.nodes)
            queue = self._rules.queue(job.spec.queue)
            over = self._state.usage.exceeded(queue, amounts)
            if over is not None:  # it takes any type, and its queue may not have more of the one that was found
                self._state.free.rollback(mark)
                found = self._places_of_a_type(job)
                if found is None:
                    return Blocked(Outcome.OVER_QUOTA, explain.over_quota(queue, over))
                places, amounts = found
        worth, paid = hourly_costs(job.spec, places, self._world.nodes, self._rules.site.pools)
        over_budget = self._orders.spend(job, paid)
        if over_budget is not None:
            self._state.free.rollback(mark)
            return Blocked(Outcome.OVER_BUDGET, over_budget)
        nodes = [self._world.nodes[place.node] for place in places]
        attempt = replace(new_attempt(job, places, nodes, self._now), usd_per_hour=worth, ordered_usd_per_hour=paid)
        self._state.usage.hold(attempt.id, job.spec.queue, sharer, amounts, self._now)
        self._booked.append(attempt.id)
        self._found.opens.append(Open(attempt=attempt))
        self._preempter.opened += 1
        self._state.reservations.pop(job.id, None)
        self._claims.pop(job.id, None)
        return None

    def _places_of_a_type(self, job: Job) -> tuple[tuple[Placement, ...], Amounts] | None:
        """Places on one type of accelerator, by name, of which its queue may have so much. None: there is no such type."""
        free, queue = self._state.free, self._rules.queue(job.spec.queue)
        for name in sorted({node.accelerator for node in free.nodes if node.accelerator}):
            mark = free.checkpoint()
            places = self._rules.placer.place(job.id, of_type(job.spec, name), free)
            if places is not None:
                amounts = amounts_of(job.spec, places, self._world.nodes)
                if self._state.usage.exceeded(queue, amounts) is None:
                    return places, amounts
            free.rollback(mark)
        return None

    # Room that is made

    def _make_room(self, job: Job, amounts: Amounts) -> bool:
        """Claim what is about to be given back, or ask others to give back. Returns whether there is such room."""
        nodes = self._nodes_when_gone(job, amounts)
        if nodes is None:
            self._close((), job)
            cleared = self._victims(job, amounts)
            if cleared is None:
                self._close(())
                return False
            self._found.victims += [(victim, job.id) for victim in cleared.all]
            self._going |= dict.fromkeys(victim.id for victim in cleared.all)
            nodes = cleared.nodes
        self._claims[job.id] = frozenset(nodes)
        self._close(())
        return True

    def _victims(self, job: Job, amounts: Amounts) -> Cleared | None:
        """Who goes for it. Where nobody could, and nothing has changed since that could help, it is not looked again."""
        state, site, queue = self._state, self._rules.site, job.spec.queue
        claim = self._rules.policy_of(queue).claim(Facts(job, None, self._now, state.history))
        if claim is None and not (site.defrag or self._rules.queue(queue).cohort or state.runners.has_preemptible):
            return None  # nobody is stopped for anybody here
        state.runners.refresh(self._world, self._now)
        is_patient = self._preempter.is_patient(job)
        owed = state.usage.held_in_cohort(self._rules.queue(queue))
        cost = state.history.overhead_seconds(site.preemption.cost_seconds)
        stamp = (state.given_back, state.runners.version, is_patient, claim, owed, cost)
        until = state.no_victims_until(job.id, stamp, self._now)
        if until is None:
            cleared = self._preempter.find(job, amounts, self._going)
            if cleared is not None:
                return cleared
            until = self._preempter.spared_until
            if site.defrag and job.spec.accelerator_milli > WHOLE_DEVICE_MILLI:
                until = min(until, (self._now // AGES_SECONDS + 1) * AGES_SECONDS)
            if not self._claims:
                state.note_no_victims(job.id, stamp, until)
        if until < math.inf:
            self._look_again(until)
        return None

    def _nodes_when_gone(self, job: Job, amounts: Amounts) -> set[str] | None:
        """Where it would be when those that are about to stop have stopped."""
        shape = self._state.shapes.of(job.spec)
        if not self._going or self._no_room_when_gone.get((job.spec.queue, shape)) == len(self._going):
            return None
        going = [self._world.attempts[attempt] for attempt in self._going]
        before = [self._world.jobs[claimer] for claimer in self._claims if claimer != job.id]
        self._state.free.reopen()  # of a node on which room is made for others, the rest is there for it
        nodes = self._preempter.fits_without(job, amounts, going, before=before)
        if nodes is None:  # nor does the next of its shape, as long as nobody else goes
            self._no_room_when_gone[job.spec.queue, shape] = len(self._going)
        return nodes

    def _close(self, nodes: Iterable[str], job: Job | None = None) -> None:
        """Close these nodes, and those on which room is being made for anybody but this job; no others."""
        self._state.free.reopen()
        self._state.free.close(nodes)
        for claimer, claimed in self._claims.items():
            if job is None or claimer != job.id:
                self._state.free.close(claimed)

    def _look_for_turns(self) -> None:
        """One that waits may have somebody's place later: when that one's turn has come, or its own patience is over."""
        runners = self._state.runners
        if self._found.waits and runners.next_turn_at is not None:
            self._look_again(max(runners.next_turn_at, self._now + TURN_SECONDS))
        if self._found.waits and runners.next_grown_at is not None:
            self._look_again(runners.next_grown_at)
        for job_id in self._found.waits:
            job = self._world.jobs[job_id]
            patience = self._rules.policy_of(job.spec.queue).patience_seconds(
                Facts(job, None, self._now, self._state.history)
            )
            is_fresh = job.preemptions and job.queued_since >= self._now  # and asks for nobody at this very instant
            self._look_again(self._now + AN_INSTANT_SECONDS if is_fresh else job.queued_since + patience)

    def _look_again(self, moment: float) -> None:
        if moment > self._now:
            self._found.look_again_at = min(moment, self._found.look_again_at or moment)

    def _tell(self, newcomers: Iterable[str]) -> None:
        """Say why those wait that the walk never came to."""
        opened = {change.attempt.job for change in self._found.opens}
        for job_id in sorted(newcomers):
            if job_id in self._state.waiting and job_id not in opened and job_id not in self._found.waits:
                job = self._world.jobs[job_id]
                full = self._full.get((job.spec.queue, self._state.waiting.shape(job_id)))
                self._found.waits[job_id] = (BEHIND if full is None else full.of_the_next).reason
