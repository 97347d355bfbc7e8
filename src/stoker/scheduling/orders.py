"""What is ordered for those that find no room: machines of the site's pools, the cheapest first, all accelerators in one zone.

A job for which machines are on their way keeps those that have come: others get what is left. What is on order is worked out anew
in every round from what there is, so that whatever is lost on the way is ordered again, and what nobody needs is given back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.changes import NodeFailed, OrderMachines
from stoker.core.copies import replace
from stoker.core.ids import split_job_id
from stoker.core.job import Job, Ordered, Placement, Reason
from stoker.core.node import Node, NodeState, pool_record
from stoker.core.site import Pool
from stoker.core.spec import Group
from stoker.core.world import World

from . import explain
from .costs import hourly_costs
from .outcome import Blocked, Outcome
from .pools import PAUSE_SECONDS, is_closed, is_for, last_failure, pool_of, price_of_one, prices, takes
from .scheduler_state import SchedulerState
from .spending import next_month
from .supply import Supply

_CENT_PARTS = 1e-9  # what sums of prices may be off


@dataclass(frozen=True, slots=True)
class _Offer:
    """Places for a whole gang, some of them on machines that are not there yet."""

    places: tuple[Placement, ...]
    zone: str
    missing: Counter[str]  # pool → machines that are to come and nobody counts on yet
    counted_on: Counter[str]  # pool → all machines of it that are to come
    usd_per_hour: float  # of those that nobody counts on yet


class Orders:
    """The orders of one round."""

    def __init__(self, state: SchedulerState, world: World, now: float, look_again: Callable[[float], None]) -> None:
        """`look_again`: asks for another round at a moment."""
        self._state = state
        self._pools = state.rules.site.pools
        self._world = world
        self._now = now
        of_pools = [node for node in world.nodes.values() if node.node_pool] if self._pools else []
        self._busy = _busy(world) if self._pools else frozenset[str]()
        self._smaller = {node.node_pool: node for node in of_pools if self._is_smaller(node)}
        self.is_blind = bool(of_pools) and all(node.state is NodeState.DOWN for node in of_pools)
        self._supply = Supply(state.free, self._pools, of_pools)
        self._claimed: dict[str, frozenset[str]] = {}  # job → nodes that are there, and kept for it
        self._failed_now: dict[str, str] = {}  # pool → what is wrong with it, as this round has found
        self._usd_per_hour: dict[str, float] = {}  # project → what was ordered for it in this round
        self._changes: list[OrderMachines | NodeFailed] = []
        self.has_ordered_more = False
        self._look_again = look_again

    def ordered_before(self, waiting: Iterable[str]) -> list[Job]:
        """The jobs for which machines are on their way, who came first first."""
        found = [job for name in waiting if (job := self._world.jobs[name]).ordered is not None]
        return sorted(found, key=lambda job: (job.ordered.at if job.ordered else 0.0, job.id))

    def order(self, job: Job) -> Blocked | None:
        """Let a job count on machines that come. The reason says that it does, or why it cannot. None: no pool is for it.

        What is there of what it counts on is taken out of what is free.
        """
        pools = [pool for pool in self._pools.values() if self._could_serve(pool, job)]
        failures = [last_failure(self._world, pool.name, self._now) for pool in pools]
        for fault in failures:
            if fault is not None:
                self._look_again(fault.at + PAUSE_SECONDS)
        self._give_up_on_what_is_late(job)
        usable = [pool for pool in pools if not self._is_shut(pool)]
        for pool in usable:
            self._give_up_on_what_is_smaller(job, pool)
        offer = self._best_offer(job, [pool for pool in usable if pool.name not in self._failed_now])
        if offer is None:
            why_not = self._why_not(job, pools)
            return None if why_not is None else Blocked(Outcome.NO_CAPACITY, why_not)
        over = self.spend(job, self._costs(job, offer))
        if over is not None:
            return Blocked(Outcome.OVER_BUDGET, over)
        self._take(job, offer)
        up = {place.node for place in offer.places if not place.node.startswith("~")}
        coming = sum(offer.counted_on.values())
        wanted = _in_words(offer.counted_on)
        return Blocked(Outcome.ORDERED, explain.provisioning(len(up), len(up) + coming, wanted, offer.zone))

    def spend(self, job: Job, usd_per_hour: float) -> Reason | None:
        """Let a job's project pay so much by the hour from now on. The reason says why it may not."""
        project, site = split_job_id(job.id)[0], self._state.rules.site
        if not site.budgets or not usd_per_hour:
            return None
        budget, before = site.budget(project), self._usd_per_hour.get(project, 0.0)
        if budget.usd_per_hour is not None:
            others = (a for a in self._world.attempts.values() if split_job_id(a.job)[0] == project)
            held = before + sum(attempt.ordered_usd_per_hour for attempt in others)
            if held + usd_per_hour > budget.usd_per_hour + _CENT_PARTS:
                return explain.over_hourly_budget(project, budget.usd_per_hour, held, usd_per_hour)
        if budget.usd_per_month is not None:
            spent = self._state.spending.of(project, self._world, self._now)
            if spent >= budget.usd_per_month:
                self._look_again(next_month(self._now))
                return explain.over_monthly_budget(project, budget.usd_per_month, spent)
        self._usd_per_hour[project] = before + usd_per_hour
        return None

    def cheapest(self, job: Job) -> float | None:
        """What a job would cost by the hour if its machines were ordered now, in US dollars. None: they cannot be."""
        offer = self._best_offer(job, [pool for pool in self._pools.values() if self._could_serve(pool, job)])
        return None if offer is None else offer.usd_per_hour

    def keep(self, job: Job, reason: Reason) -> Reason:
        """Nobody knows what is there now: what it counted on, it counts on."""
        self._claimed[job.id] = self._state.claimed.get(job.id, frozenset())
        return reason

    def end(self, waiting: Iterable[str]) -> list[OrderMachines | NodeFailed]:
        """Keep for how many machines this round leaves reason. Returns what is to be written of orders.

        Who waits and was not found to count on machines in this round has none to come any more.
        """
        if not self._pools:
            return []
        for job in self.ordered_before(waiting):
            if job.id not in self._claimed:
                self._changes.append(OrderMachines(job=job.id, ordered=None))
        if not self.is_blind:
            self._state.coming = self._supply.coming
        self._state.claimed = self._claimed
        return self._changes

    # What can be ordered

    def _could_serve(self, pool: Pool, job: Job) -> bool:
        return takes(job.spec, pool) and any(is_for(group.machine, pool) for group in job.spec.groups)

    def _is_shut(self, pool: Pool) -> bool:
        return is_closed(self._world, pool.name) or last_failure(self._world, pool.name, self._now) is not None

    def _best_offer(self, job: Job, pools: Sequence[Pool]) -> _Offer | None:
        """The cheapest; but what is on its way already goes on, as long as it leads to a place."""
        if job.ordered is not None:
            zone, known = job.ordered.zone, dict(job.ordered.machines)
            offer = self._offer(job, zone, [pool for pool in pools if pool.name in known])
            if offer is not None:
                return offer
        zones = sorted({pool.zone for pool in pools})
        offers = [offer for zone in zones for offer in [self._offer(job, zone, pools)] if offer is not None]
        return min(offers, key=lambda offer: (offer.usd_per_hour, offer.zone), default=None)

    def _offer(self, job: Job, zone: str, pools: Sequence[Pool]) -> _Offer | None:
        """Places with machines of the zone: the cheapest for each role, and only if that is not enough the next."""
        choices = [_choices(group, zone, pools) for group in job.spec.groups]
        for most in range(1, max(map(len, choices), default=0) + 1):
            opened = {pool.name: pool for pools in choices for pool in pools[:most]}
            limits = {name: self._supply.left(pool, job) for name, pool in opened.items()}
            places = self._try(job, limits)
            if places is not None:
                return self._offer_of(self._with_the_fewest(job, limits, places), zone)
        return None

    def _try(self, job: Job, limits: Mapping[str, int]) -> tuple[Placement, ...] | None:
        """Places on what is free, on machines that come, and on at most so many new ones of each pool; nothing is taken."""
        free = self._supply.free(limits)
        mark = free.checkpoint()
        places = self._state.rules.placer.place(job.id, job.spec, free)
        free.rollback(mark)
        return places

    def _with_the_fewest(
        self, job: Job, limits: Mapping[str, int], places: tuple[Placement, ...]
    ) -> tuple[Placement, ...]:
        """Places with no more new machines than are needed: a placer takes what fits best, and what is there may fit as well."""
        free = self._state.free
        if not any(free.candidates(job.spec, group.machine).size for group in job.spec.groups):
            return places  # there is nothing that could be used instead
        new = _new_machines(places, self._supply.names)
        best, fewest = places, {name: new[name] for name in limits}
        for pool in sorted(fewest, key=lambda name: (-prices(self._pools, [(name, 1)]), name)):  # the dearest first
            enough, too_few = fewest[pool], -1
            while enough - too_few > 1:
                middle = (enough + too_few) // 2
                found = self._try(job, {**fewest, pool: middle})
                if found is None:
                    too_few = middle
                else:
                    best, enough = found, middle
            fewest[pool] = enough
        return best

    def _offer_of(self, places: tuple[Placement, ...], zone: str) -> _Offer:
        missing = _new_machines(places, self._supply.names)
        return _Offer(places, zone, missing, _new_machines(places, ()), prices(self._pools, missing.items()))

    # What comes of it

    def _take(self, job: Job, offer: _Offer) -> None:
        """It counts on these: nobody else does."""
        machines = {group.role: group.machine for group in job.spec.groups}
        for place in offer.places:
            if place.node.startswith("~"):
                self._supply.hold(place, machines[place.role], job.id)
            else:
                self._state.free.take_again(place, machines[place.role], job.id)
        self._claimed[job.id] = frozenset(p.node for p in offer.places if not p.node.startswith("~"))
        wanted, before = tuple(sorted(offer.counted_on.items())), job.ordered
        at = came_at = self._now
        if before is not None:
            known, at = dict(before.machines), before.at
            is_new = before.zone != offer.zone or not offer.counted_on.keys() <= known.keys()
            if not is_new and sum(offer.counted_on.values()) >= sum(known.values()):
                came_at = before.came_at
        self._look_again(came_at + self._state.rules.site.patience_seconds)
        ordered = Ordered(machines=wanted, zone=offer.zone, at=at, came_at=came_at)
        if ordered != before:
            self.has_ordered_more = self.has_ordered_more or before is None
            self._changes.append(OrderMachines(job=job.id, ordered=ordered))

    def _give_up_on_what_is_late(self, job: Job) -> None:
        """Of pools whose machines do not come, nothing is ordered for a while."""
        patience = self._state.rules.site.patience_seconds
        if job.ordered is not None and self._now >= job.ordered.came_at + patience:
            for pool, _ in job.ordered.machines:
                if pool in self._pools:
                    self._give_up(job, pool, f"no machine that was ordered has come for {patience / 60:g} min")

    def _give_up_on_what_is_smaller(self, job: Job, pool: Pool) -> None:
        """Machines that are less than the site file says would be ordered again and again, and never be enough."""
        node = self._smaller.get(pool.name)
        if node is not None:
            has = f"{node.vcpus:g} vCPUs, {node.memory_gb:g} GB and {len(node.devices)} accelerators"
            says = f"{pool.vcpus:g}, {pool.memory_gb:g} and {pool.accelerators}"
            self._give_up(job, pool.name, f"its machine {node.name} has {has}, where the site file says {says}")

    def _give_up(self, job: Job, pool: str, what: str) -> None:
        if pool not in self._failed_now and last_failure(self._world, pool, self._now) is None:
            self._failed_now[pool] = what
            self._changes.append(NodeFailed(node=pool_record(pool), job=job.id, at=self._now, what=what))

    def _is_smaller(self, node: Node) -> bool:
        """Whether a machine that nobody uses, and that has come for somebody, is less than its pool says."""
        pool = self._pools.get(node.node_pool)
        if pool is None or node.name in self._busy or node.state is not NodeState.UP:
            return False
        return node.vcpus < pool.vcpus or node.memory_gb < pool.memory_gb or len(node.devices) < pool.accelerators

    def _costs(self, job: Job, offer: _Offer) -> float:
        """US dollars per hour: of new machines all, of others the share that it takes."""
        shared = [p for p in offer.places if not p.node.startswith("~") or p.node in self._supply.names]
        nodes = {**self._world.nodes, **self._supply.names}
        return offer.usd_per_hour + hourly_costs(job.spec, shared, nodes, self._pools)[1]

    def _why_not(self, job: Job, pools: Sequence[Pool]) -> Reason | None:
        """It is for want of pools that did not give what was ordered, if with them there were places."""
        faults = {pool.name: last_failure(self._world, pool.name, self._now) for pool in pools}
        said = [(name, fault.what) for name, fault in faults.items() if fault is not None]
        said += [(name, self._failed_now[name]) for name in faults if name in self._failed_now]
        open_pools = [pool for pool in pools if not is_closed(self._world, pool.name)]
        if not said or self._best_offer(replace(job, ordered=None), open_pools) is None:
            return None
        return explain.no_capacity(said)


def machines_wanted(state: SchedulerState, world: World) -> dict[str, int]:
    """For each pool, how many machines there is reason for: those that are used, kept for somebody, or to come.

    One that an admin has cordoned is one of so many, as the engine counts: where more are to come, it counts besides. One that is
    about to go counts no more, but while it is used.
    """
    pools = state.rules.site.pools
    found = {name: state.coming.get(name, 0) for name in pools}
    used = _busy(world).union(*state.claimed.values())
    for node in world.nodes.values():
        if node.node_pool in found:
            is_cordoned = node.state is NodeState.UP and node.leaving_at is None and not world.takes_work(node)
            is_besides = is_cordoned and state.coming.get(node.node_pool, 0) > 0
            found[node.node_pool] += node.name in used or is_besides
    return {name: min(max(int(count), pools[name].least), pools[name].most) for name, count in found.items()}


def _busy(world: World) -> frozenset[str]:
    """The nodes on which live attempts have places."""
    return frozenset(place.node for attempt in world.attempts.values() for place in attempt.placements)


def _choices(group: Group, zone: str, pools: Sequence[Pool]) -> list[Pool]:
    """The pools that a role may use, the cheapest for one replica first; accelerators only in the zone."""
    fitting = [pool for pool in pools if is_for(group.machine, pool)]
    in_place = [pool for pool in fitting if pool.zone == zone or not group.machine.accelerator_milli]

    def rank(pool: Pool) -> tuple[float, bool, str]:
        price = price_of_one(group.machine, pool)
        return math.inf if price is None else price, pool.zone != zone, pool.name

    return sorted(in_place, key=rank)


def _new_machines(places: Iterable[Placement], known: Container[str]) -> Counter[str]:
    """How many machines of each pool are not there, beside those that are known to come."""
    named = {place.node for place in places if place.node.startswith("~") and place.node not in known}
    return Counter(map(pool_of, named))


def _in_words(machines: Mapping[str, int]) -> str:
    return " and ".join(f"{count} × {pool}" for pool, count in sorted(machines.items()))
