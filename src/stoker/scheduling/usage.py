"""Who holds how much, and what that leaves of shares and quotas.

Resources go by accelerator type (`NVIDIA_TESLA_T4`), by `GPU` for all types together and by `CPU` for vCPUs; each also
with `@region`. Amounts are thousandths of devices and vCPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from stoker.core.job import Placement
from stoker.core.node import Node
from stoker.core.site import Queue, Quota, Site
from stoker.core.spec import ANY_ACCELERATOR, JobSpec

Amounts = Mapping[str, int]
ALL_ACCELERATORS = "GPU"
VCPUS = "CPU"


@dataclass(slots=True)
class _Account:
    """What one sharer holds, and has held."""

    held: dict[str, int] = field(default_factory=dict)
    past: dict[str, float] = field(default_factory=dict)  # moving average of what was held, as of `at`
    at: float = 0.0


class Usage:
    """What every queue and sharer holds."""

    def __init__(self, site: Site, nodes: Iterable[Node]) -> None:
        self._site = site
        self._accounts: dict[str, _Account] = {}
        self._queues: dict[str, dict[str, int]] = {}
        self._attempts: dict[str, tuple[str, str, Amounts]] = {}
        self._cohorts: dict[str, list[Queue]] = {}
        for queue in site.queues.values():
            if queue.cohort:
                self._cohorts.setdefault(queue.cohort, []).append(queue)
        self._capacity: dict[str, int] = {}
        self.count_nodes(nodes)

    def count_nodes(self, nodes: Iterable[Node]) -> None:
        """The site has these nodes now."""
        self._capacity = {}
        for node in nodes:
            if not node.pool:
                _add(self._capacity, node.accelerator, 1000 * len(node.devices))
                _add(self._capacity, VCPUS, round(node.vcpus * 1000))

    def sharer(self, queue: str, owner: str) -> str:
        """Who has a share: the queue, or each user of it."""
        return queue if self._site.share_by == "queue" else f"{queue}/{owner}"

    def hold(self, attempt: str, queue: str, sharer: str, amounts: Amounts, now: float) -> None:
        """An attempt takes this."""
        self._attempts[attempt] = (queue, sharer, amounts)
        self._book(queue, sharer, amounts, 1, now)

    def release(self, attempt: str, now: float) -> None:
        """An attempt gives back what it held."""
        if attempt in self._attempts:
            queue, sharer, amounts = self._attempts.pop(attempt)
            self._book(queue, sharer, amounts, -1, now)

    def held_by(self, attempt: str) -> Amounts:
        """What an attempt holds."""
        return self._attempts[attempt][2]

    @contextmanager
    def without(self, attempts: Iterable[str], now: float) -> Iterator[None]:
        """As if these attempts held nothing."""
        gone = [(attempt, *self._attempts[attempt]) for attempt in attempts]
        for attempt, *_ in gone:
            self.release(attempt, now)
        yield
        for attempt, queue, sharer, amounts in gone:
            self.hold(attempt, queue, sharer, amounts, now)

    def remember(self, sharer: str, amounts: Amounts, started: float, ended: float, now: float) -> None:
        """It has held this in the past: at a start of the server, when the books are new."""
        half_life = self._site.half_life_seconds
        if half_life > 0:
            part = 0.5 ** ((now - ended) / half_life) - 0.5 ** ((now - started) / half_life)
            account = self._accounts.setdefault(sharer, _Account(at=now))
            for resource, amount in amounts.items():
                account.past[resource] = account.past.get(resource, 0.0) + part * amount

    def credit(self, sharer: str, amounts: Amounts, seconds: float, until: float, now: float) -> None:
        """Of what it has held, so much up to a moment counts no more."""
        account = self._accounts.get(sharer)
        if account is not None:
            self._age(account, now)
            self.remember(sharer, {name: -amount for name, amount in amounts.items()}, until - seconds, until, now)
            for resource in amounts:
                account.past[resource] = max(0.0, account.past.get(resource, 0.0))

    def share(self, queue: str, sharer: str, now: float) -> float:
        """The dominant share (DRF, NSDI'11), by weight: of what it holds and of what it has held lately, the mean of both."""
        account = self._accounts.get(sharer)
        if account is None:
            return 0.0
        self._age(account, now)
        weighs_past = self._site.half_life_seconds > 0
        shares = (
            (held + account.past.get(resource, 0.0)) / 2 / total if weighs_past else held / total
            for resource, total in self._capacity.items()
            if total and (held := account.held.get(resource, 0)) + account.past.get(resource, 0.0) > 0
        )
        weight = self._site.queues[queue].weight if queue in self._site.queues else 1.0
        return max(shares, default=0.0) / weight

    def held(self, queue: str, resource: str) -> int:
        """What a queue holds of a resource."""
        return self._queues.get(queue, {}).get(resource, 0)

    def borrows(self, queue: Queue) -> bool:
        """Whether it holds all that is its own or more, of any resource with a quota. Who holds nothing borrows nothing."""
        return any(
            0 < self.held(queue.name, resource) >= quota.nominal_milli for resource, quota in queue.quotas.items()
        )

    def is_within_its_own(self, queue: Queue, amounts: Amounts) -> bool:
        """Whether it asks for what the queue has of its own, and would hold no more than that with this on top."""
        asked = {resource: quota for resource, quota in queue.quotas.items() if amounts.get(resource)}
        return bool(asked) and all(
            self.held(queue.name, resource) + amounts[resource] <= quota.nominal_milli
            for resource, quota in asked.items()
        )

    def exceeded(self, queue: Queue, amounts: Amounts) -> str | None:
        """The first resource, by name, of which it may not hold so much more now. None: it may."""
        for resource in sorted(queue.quotas):
            asked = amounts.get(resource, 0)
            if asked and not self._may_hold(queue, queue.quotas[resource], resource, asked):
                return resource
        return None

    def ever_exceeds(self, queue: Queue, amounts: Amounts) -> str | None:
        """The first resource of which it could not hold so much if nobody held anything. None: it could."""
        empty = Usage(self._site, ())
        return empty.exceeded(queue, amounts)

    def most(self, queue: Queue, resource: str) -> int | None:
        """How much of a resource it could hold if nobody held anything. None: there is no limit."""
        quota = queue.quotas.get(resource)
        if quota is None:
            return None
        if not queue.cohort:
            return quota.nominal_milli
        most = _kept(quota) + Usage(self._site, ())._left_in_common(queue.cohort, resource)
        return most if quota.borrowing_milli is None else min(most, quota.nominal_milli + quota.borrowing_milli)

    def part(self, queue: str) -> float:
        """The greatest part of any resource of the site that a queue holds."""
        return max((self.held(queue, name) / total for name, total in self._capacity.items() if total), default=0.0)

    def held_of_all(self, queue: str) -> Amounts:
        """What a queue holds, by resource."""
        return {resource: amount for resource, amount in self._queues.get(queue, {}).items() if amount}

    def held_in_cohort(self, queue: Queue) -> tuple[int, ...]:
        """What the queues of its cohort hold of what has quotas, to see whether that has changed."""
        return tuple(
            self.held(other.name, name) for other in self._cohorts.get(queue.cohort, ()) for name in other.quotas
        )

    def over(self, queue: Queue, resource: str) -> int:
        """How much it holds beyond its own."""
        quota = queue.quotas.get(resource)
        return self.held(queue.name, resource) - quota.nominal_milli if quota else 0

    def _book(self, queue: str, sharer: str, amounts: Amounts, sign: int, now: float) -> None:
        account = self._accounts.setdefault(sharer, _Account(at=now))
        self._age(account, now)
        held = self._queues.setdefault(queue, {})
        for resource, amount in amounts.items():
            _add(account.held, resource, sign * amount)
            _add(held, resource, sign * amount)

    def _may_hold(self, queue: Queue, quota: Quota, resource: str, asked: int) -> bool:
        held = self.held(queue.name, resource)
        if held + asked <= quota.nominal_milli and not queue.cohort:
            return True
        if quota.borrowing_milli is not None and held + asked > quota.nominal_milli + quota.borrowing_milli:
            return False
        if not queue.cohort:
            return False
        # What it may not lend is always there for it; the rest comes out of what the cohort has in common.
        own = max(0, _kept(quota) - held)
        return asked <= own or asked - own <= self._left_in_common(queue.cohort, resource)

    def _left_in_common(self, cohort: str, resource: str) -> int:
        left = 0
        for queue in self._cohorts[cohort]:
            quota = queue.quotas.get(resource)
            if quota is not None:
                kept = _kept(quota)
                left += quota.nominal_milli - kept - max(0, self.held(queue.name, resource) - kept)
        return left

    def _age(self, account: _Account, now: float) -> None:
        half_life = self._site.half_life_seconds
        if half_life > 0 and now > account.at:
            fades = 0.5 ** ((now - account.at) / half_life)
            for resource in account.held.keys() | account.past.keys():
                past, held = account.past.get(resource, 0.0), account.held.get(resource, 0)
                account.past[resource] = past * fades + held * (1 - fades)
        account.at = now


def amounts_of(spec: JobSpec, places: Iterable[Placement] = (), nodes: Mapping[str, Node] | None = None) -> Amounts:
    """What a gang holds, by resource. Of what type a device is that may be of several, its place says.

    On nodes of a pool, such as a rehearsal's, it holds nothing of the site's.
    """
    if spec.pool:
        return {}
    amounts: dict[str, int] = {}
    machines = {group.role: group.machine for group in spec.groups}
    for group in spec.groups:
        machine = group.machine
        milli = group.count * machine.accelerator_milli
        _add(amounts, VCPUS, round(group.count * machine.vcpus * 1000))
        _add(amounts, ALL_ACCELERATORS, milli)
        if milli and is_definite(machine.accelerator):
            _add(amounts, machine.accelerator, milli)
    for place in places:
        machine = machines[place.role]
        if machine.accelerator_milli and not is_definite(machine.accelerator) and nodes and place.node in nodes:
            _add(amounts, nodes[place.node].accelerator, machine.accelerator_milli)
    if spec.region:
        amounts |= {f"{resource}@{spec.region}": amount for resource, amount in amounts.items()}
    return amounts


def is_definite(accelerator: str) -> bool:
    """Whether it names one type."""
    return accelerator != ANY_ACCELERATOR and "|" not in accelerator


def _kept(quota: Quota) -> int:
    """What of its own a queue keeps for itself whatever others want."""
    return 0 if quota.lending_milli is None else max(0, quota.nominal_milli - quota.lending_milli)


def _add(amounts: dict[str, int], resource: str, amount: int) -> None:
    if resource and amount:
        amounts[resource] = amounts.get(resource, 0) + amount
