"""A site's own past under other rules: the same jobs once under the present ones and once under the new ones, side by side.

Both are replays, so that what a replay cannot know is wrong on both sides alike. How far the first one is from what really
happened is told beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from stoker.core.errors import BadSpec, Violation
from stoker.core.node import Node
from stoker.core.site import Site
from stoker.core.states import JobState
from stoker.scheduling.decide import ever_fits
from stoker.scheduling.rules import Rules, rules_of
from stoker.store.memory import MemoryStore

from .engine import Costs
from .past import Past, PastJob
from .run import Model, run_jobs
from .timeline import Timeline, timeline

ASSUMPTIONS = (
    "every job runs as long as it held its machines in fact, whatever else runs beside it",
    "jobs that failed or were cancelled count as they ran; those that still run, as if they ended now",
    "the machines are those that the server has now, all of them up, and empty at the beginning",
    "a job that is stopped for others pays for a restart, and begins anew if it cannot resume",
    "rehearsals are left out",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What the new rules do to one job."""

    past: PastJob
    ended_before: float  # in the replay under the present rules
    ended_after: float  # under the new ones

    @property
    def wait_before(self) -> float:
        """Seconds without machines between submission and end, under the present rules."""
        return self.ended_before - self.past.job.submitted_at - self.past.run_seconds

    @property
    def wait_after(self) -> float:
        """The same, under the new ones."""
        return self.ended_after - self.past.job.submitted_at - self.past.run_seconds

    @property
    def gain_seconds(self) -> float:
        """How much sooner it ends. Below 0: later."""
        return self.ended_before - self.ended_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the new rules do to the jobs of one queue or user, on average."""

    name: str
    jobs: int
    gpu_hours: float
    wait_before: float
    wait_after: float
    finish_before: float  # when the last of them ends
    finish_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How well the replay under the present rules matches what really happened, for jobs that have ended."""

    jobs: int
    real_wait: float  # on average, in seconds
    replayed_wait: float
    median_miss: float  # between the real and the replayed end of a job


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoReplays:
    """The answer."""

    shifts: Sequence[Shift]
    queues: Sequence[Share]
    users: Sequence[Share]
    calibration: Calibration | None  # None: no job has ended
    fits_not_before: Sequence[str]  # ids of jobs that no node could ever hold, at present
    fits_not_after: Sequence[str]  # with the nodes as they would be, though they fit now
    before: Timeline
    after: Timeline
    preemptions_before: int
    preemptions_after: int

    def extremes(self, most: int = 5) -> tuple[list[Shift], list[Shift]]:
        """The jobs that gain the most and those that lose the most."""
        ordered = sorted(self.shifts, key=lambda shift: (-shift.gain_seconds, shift.past.job.id))
        gain = [shift for shift in ordered[:most] if shift.gain_seconds > 0.5]
        return gain, [shift for shift in reversed(ordered[-most:]) if shift.gain_seconds < -0.5]


def replay_twice(
    past: Past, new: Site, nodes: Sequence[Node], *, progress: Callable[[int], None] = lambda jobs: None
) -> TwoReplays:
    """Replay the past under the present rules and machines, and under new ones."""
    old_rules, new_rules = rules_of(past.site), rules_of(new)
    fits_before = _fitting(past.jobs, past.nodes, old_rules)
    fits_after = _fitting(past.jobs, nodes, new_rules)
    jobs = [found for found in past.jobs if found.job.id in fits_before & fits_after]
    if not jobs:
        problem = f"none of the {len(past.jobs):,} jobs fits on {'these' if fits_before else 'the present'} nodes"
        raise BadSpec([Violation("nodes", problem)], fix="remove fewer nodes" if fits_before else "")
    costs = Costs(restart_seconds=past.site.preemption.cost_seconds)
    before = _run(jobs, past.nodes, old_rules, costs, progress)
    after = _run(jobs, nodes, new_rules, costs, lambda submitted: progress(len(jobs) + submitted))
    shifts = [
        Shift(past=found, ended_before=ends[0], ended_after=ends[1])
        for found in jobs
        if (ends := _ends(found, before, after)) is not None
    ]
    if not shifts:
        raise BadSpec(
            [Violation("site", "no job ever starts under these rules")], fix="look at the quotas of its queues"
        )
    end = max(max(shift.ended_before, shift.ended_after) for shift in shifts)
    return TwoReplays(
        shifts=shifts,
        queues=_shares(shifts, lambda found: found.job.spec.queue),
        users=_shares(shifts, lambda found: found.job.owner),
        calibration=_calibrated(shifts),
        fits_not_before=[found.job.id for found in past.jobs if found.job.id not in fits_before],
        fits_not_after=[found.job.id for found in past.jobs if found.job.id in fits_before - fits_after],
        before=_timeline(before, jobs, past.nodes, end),
        after=_timeline(after, jobs, nodes, end),
        preemptions_before=_preemptions(before, jobs),
        preemptions_after=_preemptions(after, jobs),
    )


def missing_queues(past: Past, new: Site) -> Mapping[str, int]:
    """Queues that the new rules do not have any more, and how many jobs were in each: they count as the default one's."""
    gone = past.site.queues.keys() - new.queues.keys()
    return dict(sorted(Counter(one.job.spec.queue for one in past.jobs if one.job.spec.queue in gone).items()))


def _fitting(jobs: Iterable[PastJob], nodes: Sequence[Node], rules: Rules) -> set[str]:
    """The jobs that the nodes could hold if nobody else held anything."""
    known: dict[object, bool] = {}
    found = set()
    for one in jobs:
        spec = one.job.spec
        shape = (spec.region, tuple((group.count, group.machine) for group in spec.groups))
        if shape not in known:
            known[shape] = ever_fits(spec, nodes, rules.placer)
        if known[shape]:
            found.add(one.job.id)
    return found


def _run(
    jobs: Sequence[PastJob], nodes: Sequence[Node], rules: Rules, costs: Costs, progress: Callable[[int], None]
) -> MemoryStore:
    run_seconds = {found.job.id: found.run_seconds for found in jobs}
    return run_jobs([f.job for f in jobs], run_seconds, nodes, rules, model=Model(costs=costs), progress=progress)


def _ends(found: PastJob, before: MemoryStore, after: MemoryStore) -> tuple[float, float] | None:
    """When it ends in both; None where it never does in one, such as for want of quota."""
    rows = [store.row(found.job.id) for store in (before, after)]
    ends = [row.ended_at for row in rows if row.state is JobState.SUCCEEDED and row.ended_at is not None]
    return (ends[0], ends[1]) if len(ends) == 2 else None


def _shares(shifts: Sequence[Shift], name_of: Callable[[PastJob], str]) -> list[Share]:
    by_name: dict[str, list[Shift]] = {}
    for shift in shifts:
        by_name.setdefault(name_of(shift.past), []).append(shift)
    return [
        Share(
            name=name,
            jobs=len(found),
            gpu_hours=sum(shift.past.gpu_hours for shift in found),
            wait_before=fmean(shift.wait_before for shift in found),
            wait_after=fmean(shift.wait_after for shift in found),
            finish_before=max(shift.ended_before for shift in found),
            finish_after=max(shift.ended_after for shift in found),
        )
        for name, found in sorted(by_name.items())
    ]


def _calibrated(shifts: Sequence[Shift]) -> Calibration | None:
    ended = [
        (shift, wait, end)
        for shift in shifts
        if (wait := shift.past.wait_seconds) is not None and (end := shift.past.ended_at) is not None
    ]
    if not ended:
        return None
    return Calibration(
        jobs=len(ended),
        real_wait=fmean(wait for _, wait, _ in ended),
        replayed_wait=fmean(shift.wait_before for shift, _, _ in ended),
        median_miss=median(abs(shift.ended_before - end) for shift, _, end in ended),
    )


def _timeline(store: MemoryStore, jobs: Sequence[PastJob], nodes: Sequence[Node], end: float) -> Timeline:
    gpus = max(1.0, float(sum(len(node.devices) for node in nodes)))
    return timeline(store.story(), {found.job.id: found.job.spec.queue for found in jobs}, gpus, end)


def _preemptions(store: MemoryStore, jobs: Sequence[PastJob]) -> int:
    return sum(store.row(found.job.id).preemptions for found in jobs)
