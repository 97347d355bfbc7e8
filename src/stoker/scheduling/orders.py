"""What is ordered for those that find no room: machines of the site's pools, the cheapest first, all accelerators in one zone.

A job for which machines are on their way keeps those that have come: others get what is left. What is on order is worked out anew
in every round from what there is, so that whatever is lost on the way is ordered again, and what nobody needs is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.changes import NodeFailed, OrderMachines
from stoker.core.ids import split_job_id
from stoker.core.job import Job, Ordered, Placement, Reason
from stoker.core.node import Node, NodeState, pool_record
from stoker.core.site import Pool
from stoker.core.spec import Group, Machine
from stoker.core.world import World

from . import explain
from .costs import hourly_costs
from .free import Free
from .kept import Kept
from .pools import (
    PAUSE_SECONDS,
    count_by_pool,
    is_closed,
    is_for,
    last_failure,
    machines_of,
    price_of_one,
    prices,
    takes,
)
from .spending import next_month

MOST_AT_ONCE = 1000
"""Machines that one trial considers of one pool."""

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

    def __init__(self, kept: Kept, world: World, now: float) -> None:
        self._kept = kept
        self._pools = kept.rules.site.pools
        self._world = world
        self._now = now
        of_pools = [node for node in world.nodes.values() if node.node_pool] if self._pools else []
        self._there = count_by_pool(of_pools)
        self._smaller = {node.node_pool: node for node in of_pools if self._is_smaller(node)}
        self._coming: dict[str, Node] = {}  # machines that are not there, on which jobs of this round count
        self._held: list[tuple[Placement, Machine, str]] = []  # what they hold of them, with the job
        self._claimed: set[str] = set()  # nodes that are there, and kept for those who wait for more
        self._failed_now: set[str] = set()
        self._usd_per_hour: dict[str, float] = {}  # project → what was ordered for it in this round
        self.changes: list[OrderMachines | NodeFailed] = []
        self.look_again_at: list[float] = []

    def ordered_before(self, waiting: Iterable[str]) -> list[Job]:
        """Those for whom machines are on their way, who came first first."""
        found = [job for name in waiting if (job := self._world.jobs[name]).ordered is not None]
        return sorted(found, key=lambda job: (job.ordered.at if job.ordered else 0.0, job.id))

    def order(self, job: Job) -> Reason | None:
        """Let a job count on machines that come. The reason says that it does, or why it cannot. None: no pool is for it.

        What is there of what it counts on is taken out of what is free.
        """
        pools = self._pools_for(job)
        usable = [pool for pool in pools if not self._is_shut(pool)]
        failures = [last_failure(self._world, pool.name, self._now) for pool in pools]
        self.look_again_at += [fault.at + PAUSE_SECONDS for fault in failures if fault is not None]
        self._give_up_on_what_is_late(job)
        self._give_up_on_what_is_smaller(job, usable)
        offer = self._best_offer(job, usable)
        while offer is not None and offer.counted_on.keys() & self._failed_now:
            offer = self._best_offer(job, [pool for pool in usable if pool.name not in self._failed_now])
        if offer is None:
            return self._why_not(job, pools)
        over = self.spend(job, self._costs(job, offer))
        if over is not None:
            return over
        self._take(job, offer)
        return self._reason(offer)

    def spend(self, job: Job, usd_per_hour: float) -> Reason | None:
        """Let a job's project pay so much by the hour from now on. The reason says why it may not."""
        project, site = split_job_id(job.id)[0], self._kept.rules.site
        if not site.budgets or not usd_per_hour:
            return None
        budget, before = site.budget(project), self._usd_per_hour.get(project, 0.0)
        if budget.usd_per_hour is not None:
            others = (a for a in self._world.attempts.values() if split_job_id(a.job)[0] == project)
            held = before + sum(attempt.ordered_usd_per_hour for attempt in others)
            if held + usd_per_hour > budget.usd_per_hour + _CENT_PARTS:
                return explain.over_hourly_budget(project, budget.usd_per_hour, held, usd_per_hour)
        if budget.usd_per_month is not None:
            spent = self._kept.spending.of(project, self._world, self._now)
            if spent >= budget.usd_per_month:
                self.look_again_at.append(next_month(self._now))
                return explain.over_monthly_budget(project, budget.usd_per_month, spent)
        self._usd_per_hour[project] = before + usd_per_hour
        return None

    def cheapest(self, job: Job) -> float | None:
        """What a job would cost by the hour if its machines were ordered now, in US dollars. None: they cannot be."""
        offer = self._best_offer(job, self._pools_for(job))
        return None if offer is None else offer.usd_per_hour

    def drop(self, job: Job) -> None:
        """What was ordered for it is not to come any more."""
        self._kept.progress.pop(job.id, None)
        if job.ordered is not None:
            self.changes.append(OrderMachines(job=job.id, ordered=None))

    def note_wanted(self) -> None:
        """Keep for how many machines this round leaves reason."""
        self._kept.coming = count_by_pool(self._coming.values())
        self._kept.claimed = frozenset(self._claimed)

    # What can be ordered

    def _pools_for(self, job: Job) -> list[Pool]:
        spec = job.spec
        return [
            pool
            for pool in self._pools.values()
            if takes(spec, pool) and any(is_for(group.machine, pool) for group in spec.groups)
        ]

    def _is_shut(self, pool: Pool) -> bool:
        return is_closed(self._world, pool.name) or last_failure(self._world, pool.name, self._now) is not None

    def _best_offer(self, job: Job, pools: Sequence[Pool]) -> _Offer | None:
        """The cheapest; but where machines are on their way already, those go on."""
        if not pools:
            return None
        zones = sorted({pool.zone for pool in pools})
        offers = [offer for zone in zones for offer in [self._offer(job, zone, pools)] if offer is not None]
        chosen = job.ordered.zone if job.ordered is not None else None
        return min(offers, key=lambda o: (o.zone != chosen, o.usd_per_hour, o.zone), default=None)

    def _offer(self, job: Job, zone: str, pools: Sequence[Pool]) -> _Offer | None:
        """Places with machines of the zone: the cheapest for each role, and only if that is not enough the next."""
        choices = [self._choices(group, zone, pools) for group in job.spec.groups]
        for most in range(1, max(map(len, choices), default=0) + 1):
            opened = {pool.name: pool for pools in choices for pool in pools[:most]}
            limits = {name: self._left(pool, job) for name, pool in opened.items()}
            places = self._try(job, limits)
            if places is not None:
                return self._offer_of(self._with_the_fewest(job, limits, places), zone)
        return None

    def _left(self, pool: Pool, job: Job) -> int:
        """How many more machines of a pool may be ordered for a job."""
        used = count_by_pool(self._coming.values())[pool.name]
        return max(0, min(pool.most - self._there[pool.name] - used, job.spec.replicas, MOST_AT_ONCE))

    def _with_the_fewest(
        self, job: Job, limits: Mapping[str, int], places: tuple[Placement, ...]
    ) -> tuple[Placement, ...]:
        """Places with no more new machines than are needed: a placer takes what fits best, and what is there may fit as well."""
        free = self._kept.free
        if not any(free.candidates(job.spec, group.machine).size for group in job.spec.groups):
            return places  # there is nothing that could be used instead
        best, fewest = places, {**limits, **_new_machines(places, self._coming)}
        for pool in sorted(fewest):
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

    @staticmethod
    def _choices(group: Group, zone: str, pools: Sequence[Pool]) -> list[Pool]:
        """The pools that a role may use, the cheapest for one replica first; accelerators only in the zone."""
        found = [
            (price if price is not None else float("inf"), pool.zone != zone, pool.name)
            for pool in pools
            if is_for(group.machine, pool) and (pool.zone == zone or not group.machine.accelerator_milli)
            for price in [price_of_one(group.machine, pool)]
        ]
        by_name = {pool.name: pool for pool in pools}
        return [by_name[name] for _, _, name in sorted(found)]

    def _try(self, job: Job, limits: Mapping[str, int]) -> tuple[Placement, ...] | None:
        """Places for the gang on what is free, on machines that come, and on at most so many new ones of each pool."""
        used = count_by_pool(self._coming.values())
        fresh: list[Node] = []
        for name, count in limits.items():
            fresh += machines_of(self._pools[name], range(used[name], used[name] + count))
        coming = [node for node in self._coming.values() if node.node_pool in limits]
        if not fresh and not coming:
            return None
        supply = self._kept.free.with_more([*coming, *fresh])
        for place, machine, gang in self._held:
            if place.node in supply.index:
                _take(supply, place, machine, gang)
        return self._kept.rules.placer.place(job.id, job.spec, supply)

    def _offer_of(self, places: tuple[Placement, ...], zone: str) -> _Offer:
        named = {place.node for place in places if place.node.startswith("~")}
        counted_on = Counter(name[1:].partition("/")[0] for name in named)
        missing = _new_machines(places, self._coming)
        return _Offer(places, zone, missing, counted_on, prices(self._pools, missing.items()))

    # What comes of it

    def _take(self, job: Job, offer: _Offer) -> None:
        """It counts on these: nobody else does."""
        machines = {group.role: group.machine for group in job.spec.groups}
        numbers = {name: int(name.rpartition("/")[2]) for place in offer.places if (name := place.node).startswith("~")}
        for name, number in numbers.items():
            pool = self._pools[name[1:].partition("/")[0]]
            self._coming.setdefault(name, machines_of(pool, [number])[0])
        for place in offer.places:
            if place.node in numbers:
                self._held.append((place, machines[place.role], job.id))
            else:
                _take(self._kept.free, place, machines[place.role], job.id)
                self._claimed.add(place.node)
        self._note_progress(job, offer)
        wanted = tuple(sorted(offer.counted_on.items()))
        if job.ordered is None or not _covers(job.ordered, wanted, offer.zone):
            self.changes.append(
                OrderMachines(job=job.id, ordered=Ordered(machines=wanted, zone=offer.zone, at=self._now))
            )

    def _note_progress(self, job: Job, offer: _Offer) -> None:
        """Since when no machine has come for it."""
        missing = sum(offer.counted_on.values())
        known = self._kept.progress.get(job.id)
        if known is None or missing < known[0] or job.ordered is None or job.ordered.zone != offer.zone:
            self._kept.progress[job.id] = known = (missing, self._now)
        self.look_again_at.append(known[1] + self._kept.rules.site.patience_seconds)

    def _give_up_on_what_is_late(self, job: Job) -> None:
        """Of pools whose machines do not come, nothing is ordered for a while."""
        known, patience = self._kept.progress.get(job.id), self._kept.rules.site.patience_seconds
        if job.ordered is None or known is None or self._now < known[1] + patience:
            return
        del self._kept.progress[job.id]
        for pool, _ in job.ordered.machines:
            if pool in self._pools:
                self._give_up(job, pool, f"no machine that was ordered has come for {patience / 60:g} min")

    def _give_up_on_what_is_smaller(self, job: Job, pools: Iterable[Pool]) -> None:
        """Machines that are less than the site file says would be ordered again and again, and never be enough."""
        for pool in pools:
            node = self._smaller.get(pool.name)
            if node is not None:
                has = f"{node.vcpus:g} vCPUs, {node.memory_gb:g} GB and {len(node.devices)} accelerators"
                says = f"{pool.vcpus:g}, {pool.memory_gb:g} and {pool.accelerators}"
                self._give_up(job, pool.name, f"its machine {node.name} has {has}, where the site file says {says}")

    def _give_up(self, job: Job, pool: str, what: str) -> None:
        if pool not in self._failed_now and last_failure(self._world, pool, self._now) is None:
            self._failed_now.add(pool)
            self.changes.append(NodeFailed(node=pool_record(pool), job=job.id, at=self._now, what=what))

    def _is_smaller(self, node: Node) -> bool:
        pool = self._pools.get(node.node_pool)
        if pool is None:
            return False
        return node.vcpus < pool.vcpus or node.memory_gb < pool.memory_gb or len(node.devices) < pool.accelerators

    def _costs(self, job: Job, offer: _Offer) -> float:
        """US dollars per hour: of new machines all, of others the share that it takes."""
        shared = [place for place in offer.places if place.node[1:].partition("/")[0] not in offer.missing]
        nodes = {**self._world.nodes, **self._coming}
        return offer.usd_per_hour + hourly_costs(job.spec, shared, nodes, self._pools)[1]

    # What is said

    def _reason(self, offer: _Offer) -> Reason:
        nodes = {place.node for place in offer.places}
        coming = sum(offer.counted_on.values())
        wanted = " and ".join(f"{count} × {pool}" for pool, count in sorted(offer.counted_on.items()))
        return explain.provisioning(len(nodes) - coming, len(nodes), wanted, offer.zone)

    def _why_not(self, job: Job, pools: Sequence[Pool]) -> Reason | None:
        """It is for want of pools that did not give what was ordered, if with them there were places."""
        failed = {pool.name: last_failure(self._world, pool.name, self._now) for pool in pools}
        said = [(name, fault) for name, fault in failed.items() if fault is not None]
        if not said or self._best_offer(job, [p for p in pools if not is_closed(self._world, p.name)]) is None:
            return None
        return explain.no_capacity([(name, fault.what) for name, fault in said])


def machines_wanted(kept: Kept, world: World) -> dict[str, int]:
    """For each pool, how many machines there is reason for: those that are used, kept for somebody, or to come.

    One that an admin has cordoned is one of so many, as the engine counts: where more are to come, it counts besides. One that is
    about to go counts no more.
    """
    pools = kept.rules.site.pools
    found = {name: kept.coming.get(name, 0) for name in pools}
    for node in world.nodes.values():
        if node.node_pool in found and node.state is NodeState.UP and node.leaving_at is None:
            place = kept.free.index.get(node.name)
            if place is None:
                found[node.node_pool] += kept.coming.get(node.node_pool, 0) > 0
            else:
                found[node.node_pool] += kept.free.holders[place] > 0 or node.name in kept.claimed
    return {name: min(max(int(count), pools[name].least), pools[name].most) for name, count in found.items()}


def _new_machines(places: Iterable[Placement], coming: Container[str]) -> Counter[str]:
    """How many machines of each pool have to be ordered that nobody counts on yet."""
    named = {place.node for place in places if place.node.startswith("~") and place.node not in coming}
    return Counter(name[1:].partition("/")[0] for name in named)


def _covers(ordered: Ordered, wanted: Iterable[tuple[str, int]], zone: str) -> bool:
    """Whether what was ordered is what is wanted, but for what has come meanwhile."""
    known = dict(ordered.machines)
    return ordered.zone == zone and all(count <= known.get(pool, 0) for pool, count in wanted)


def _take(free: Free, place: Placement, machine: Machine, gang: str) -> None:
    """Take the same place out of what is free."""
    node = free.index[place.node]
    names = free.nodes[node].devices
    free.take_devices(node, tuple(names.index(name) for name in place.devices), place.role, place.index, machine, gang)
