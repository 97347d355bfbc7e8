"""What became of every second for which a job held its machines. Pure.

Each replica's time, from when it got its place until it gave it back, is cut into phases that add up to it. What is done in
a step comes from what programs tell of their steps (frameworks/metrics/meter.py); where they tell nothing it is unknown, and
said to be. Source of the division: Google's ML goodput library, and NVIDIA's arXiv 2410.18124; what is lost to restarts are
the steps that were done again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from stoker.core.job import Attempt
from stoker.core.states import AttemptState, Cause

from .replica_lives import Life
from .training_steps import Window


class Phase(StrEnum):
    """What a second was spent on."""

    STARTING = "starting"  # environment, imports, the first step
    GANG = "gang"  # it was ready, and others were not
    PRODUCTIVE = "productive"  # steps that count
    INPUT = "input"  # waiting for data
    COMMUNICATION = "communication"  # waiting for other replicas, or exchanging something with them
    CHECKPOINT = "checkpoint"  # standing still for one
    EVALUATION = "evaluation"  # whatever the program did between two steps
    LOST = "lost"  # steps that were done again after a restart, with all that belonged to them
    IDLE = "idle"  # hung, or ended while others of the gang went on
    STOPPING = "stopping"  # after the last step
    UNKNOWN = "unknown"  # the program told nothing


IN_STEPS = (Phase.PRODUCTIVE, Phase.INPUT, Phase.COMMUNICATION, Phase.CHECKPOINT, Phase.EVALUATION)

THE_SITES_FAULT = frozenset({Cause.NODE_LOST, Cause.REPLICA_LOST, Cause.PREEMPTED, Cause.DRAINED})
"""Whoever loses steps by these is not to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One replica of one attempt."""

    attempt: int
    replica: str
    node: str
    accelerator: str  # the type of its devices; empty: it has none
    accelerators: float  # a share of a device counts as its part
    began_at: float
    ended_at: float | None  # None: it goes on
    seconds: Mapping[Phase, float]  # adds up to the time from the one to the other, or to now
    usd: float | None = None  # of all of it; None: no price is known
    fault_seconds: float = 0.0  # of what was lost: by the site's fault

    @property
    def held_seconds(self) -> float:
        """For how long it held its place."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All replicas of all attempts of a job."""

    entries: Sequence[Entry] = ()
    is_final: bool = False
    knows_lost: bool = True  # whether it is known which steps were done again
    weight: str = field(default="accelerator")  # what a second is multiplied by: "accelerator", or "machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An attempt, and what is known of its replicas. What is held is by replica, too: its type and number of devices."""

    attempt: Attempt
    lives: Mapping[str, Life]
    windows: Mapping[str, Sequence[Window]]  # what each has told of its steps
    resumed: Sequence[tuple[float, int]]  # moments at which it went on from a checkpoint, with its step
    saves: int  # checkpoints that it has written, as far as Stoker writes them
    devices: Mapping[str, tuple[str, float]]
    follows: str = ""  # a replica by which those are told that tell nothing of steps: workers of parameter servers


@dataclass(slots=True)
class _Run:
    """One start of a program: its windows from the first step on."""

    base: int  # the step from which it went on
    windows: list[Window]
    kept: float = math.inf  # steps beyond this one were done again
    is_by_fault: bool = False  # of the site


def ledger(taken: Sequence[Taken], now: float, *, goes_on: bool, is_resumable: bool) -> Ledger:
    """The ledger of a job: of all its attempts, the first one first.

    `goes_on`: the job has not ended. `is_resumable`: it goes on from checkpoints of its own, of whose steps nothing is told.
    """
    runs = [{replica: _runs(found, one.resumed) for replica, found in one.windows.items()} for one in taken]
    knows = _mark_what_was_lost(taken, runs, is_resumable=is_resumable)
    has_devices = any(count for one in taken for _, count in one.devices.values())
    entries: list[Entry] = []
    for one, of_attempt in zip(taken, runs, strict=True):
        weights = {replica: one.devices[replica][1] if has_devices else 1.0 for replica in one.lives}
        for replica, life in one.lives.items():
            told_by = replica if of_attempt.get(replica) else one.follows
            seconds, fault = _seconds(one.attempt, life, of_attempt.get(told_by, []), now)
            kind, count = one.devices[replica]
            entries.append(
                Entry(
                    attempt=one.attempt.number,
                    replica=replica,
                    node=life.node,
                    accelerator=kind,
                    accelerators=count,
                    began_at=one.attempt.placed_at,
                    ended_at=one.attempt.ended_at,
                    seconds=seconds,
                    usd=_usd(one.attempt, weights[replica], sum(weights.values()), now),
                    fault_seconds=fault,
                )
            )
    weight = "accelerator" if has_devices else "machine"
    return Ledger(entries=entries, is_final=not goes_on, knows_lost=knows, weight=weight)


def weighed(entry: Entry, weight: str) -> float:
    """By how much the seconds of a replica count: by its accelerators, or as those of one machine."""
    return entry.accelerators if weight == "accelerator" else 1.0


def total(entries: Iterable[Entry], weight: str) -> dict[Phase, float]:
    """Accelerator-seconds, or machine-seconds, by phase. All phases are there."""
    found = dict.fromkeys(Phase, 0.0)
    for entry in entries:
        by = weighed(entry, weight)
        for phase, seconds in entry.seconds.items():
            found[phase] += by * seconds
    return found


def goodput(seconds: Mapping[Phase, float]) -> float | None:
    """The productive part of what was held. None: nothing was held, or programs ran and told nothing of steps."""
    held, stepped = sum(seconds.values()), sum(seconds.get(phase, 0.0) for phase in (*IN_STEPS, Phase.LOST))
    is_told = stepped > 0 or not seconds.get(Phase.UNKNOWN, 0.0)
    return seconds.get(Phase.PRODUCTIVE, 0.0) / held if held and is_told else None


def _runs(windows: Sequence[Window], resumed: Sequence[tuple[float, int]]) -> list[_Run]:
    found: list[_Run] = []
    for window in windows:
        if not window.steps:
            continue  # values alone
        if not found or window.step <= found[-1].windows[-1].step:
            since = found[-1].windows[-1].at if found else float("-inf")
            bases = [step for at, step in resumed if since < at <= window.at]
            found.append(_Run(bases[-1] if bases else 0, []))
        found[-1].windows.append(window)
    return found


def _mark_what_was_lost(
    taken: Sequence[Taken], runs: Sequence[Mapping[str, list[_Run]]], *, is_resumable: bool
) -> bool:
    """Note, of each run, up to where its steps were kept. Returns whether that is known."""
    has_saves = any(one.saves or one.resumed for one in taken)
    is_known = True
    for replica in {name for of_attempt in runs for name in of_attempt}:
        in_order = [
            (one.attempt, run)
            for one, of_attempt in zip(taken, runs, strict=True)
            for run in of_attempt.get(replica, ())
        ]
        for (attempt, run), (next_attempt, following) in pairwise(in_order):
            if not has_saves and is_resumable:
                is_known = False
                continue
            run.kept = float(following.base)
            run.is_by_fault = attempt is not next_attempt and attempt.cause in THE_SITES_FAULT
    return is_known


def _seconds(attempt: Attempt, life: Life, runs: Sequence[_Run], now: float) -> tuple[dict[Phase, float], float]:
    """The phases of a replica, and how much of what was lost was the site's fault."""
    began, ended = attempt.placed_at, now if attempt.ended_at is None else attempt.ended_at
    found, mark, fault = dict.fromkeys(Phase, 0.0), began, 0.0

    def until(moment: float | None, phase: Phase) -> None:
        """Book what lies before a moment; never twice, never beyond the end, however clocks differ."""
        nonlocal mark
        moment = ended if moment is None else min(max(moment, mark), ended)
        found[phase] += moment - mark
        mark = moment

    stopping = attempt.stopping_at
    goes_on = attempt.state is not AttemptState.ENDED and stopping is None and life.over_at is None
    leaves = min((at for at in (life.over_at, stopping, ended) if at is not None), default=ended)
    first_told = runs[0].windows[0].at if runs else leaves
    up = life.up_at if life.up_at is not None else first_told  # a program may be over before it is seen to run
    until(min(life.ready_at if life.ready_at is not None else up, leaves), Phase.STARTING)
    until(min(up, leaves), Phase.GANG)
    after = Phase.UNKNOWN if goes_on or not runs else Phase.STOPPING
    if runs and runs[-1].kept < math.inf:
        after = Phase.LOST  # steps that nobody was told of, before it was started again
    for run in runs:
        first, *others = run.windows
        until(min(first.at, leaves), Phase.STARTING)
        start = mark
        last = min(max(run.windows[-1].at, mark), leaves)
        fault += _book_run(found, run, others, max(0.0, last - start), life.quiet_between(start, last), after)
        mark = max(mark, last)
    if life.up_at is not None or runs:
        is_idle = attempt.cause is Cause.HUNG or life.is_quiet
        lost = found[Phase.LOST]
        until(leaves, Phase.IDLE if is_idle else after)
        fault += found[Phase.LOST] - lost if runs and runs[-1].is_by_fault else 0.0
    else:
        until(leaves, Phase.STARTING)
    until(stopping if stopping is not None else ended, Phase.IDLE)  # it has ended, and the others have not
    until(ended, Phase.STOPPING)
    return found, fault


def _book_run(
    found: dict[Phase, float], run: _Run, windows: Sequence[Window], span: float, quiet_seconds: float, after: Phase
) -> float:
    """Book the windows of a run that come after its first one, and fill a span. Returns what was lost by the site's fault.

    `after`: what the time is that came after the last step, before it was told.
    """
    parts = dict.fromkeys((*IN_STEPS, Phase.LOST), 0.0)
    for window in windows:
        own = _parts(window)
        lost = min(1.0, max(0.0, (run.base + window.step - run.kept) / window.steps))
        for phase, seconds in own.items():
            parts[phase] += (1.0 - lost) * seconds
            parts[Phase.LOST] += lost * seconds
    known = sum(parts.values())
    idle = min(quiet_seconds, parts[Phase.PRODUCTIVE])
    parts[Phase.PRODUCTIVE] -= idle
    scale = min(1.0, span / known) if known else 0.0
    for phase, seconds in parts.items():
        found[phase] += scale * seconds
    found[Phase.IDLE] += scale * idle
    rest = max(0.0, span - scale * known)
    found[after] += rest
    lost = scale * parts[Phase.LOST] + (rest if after is Phase.LOST else 0.0)
    return lost if run.is_by_fault else 0.0


def _parts(window: Window) -> dict[Phase, float]:
    """What a window was spent on."""
    waited = min(window.waited or 0.0, window.seconds)
    together = min(window.together or 0.0, window.seconds - waited)
    saving = min(window.saving, window.aside)
    return {
        Phase.PRODUCTIVE: window.seconds - waited - together,
        Phase.INPUT: waited,
        Phase.COMMUNICATION: together,
        Phase.CHECKPOINT: saving,
        Phase.EVALUATION: window.aside - saving,
    }


def _usd(attempt: Attempt, weight: float, weights: float, now: float) -> float | None:
    """A replica's part of what an attempt has cost."""
    if attempt.usd_per_hour is None or not weights:
        return None
    held = (now if attempt.ended_at is None else attempt.ended_at) - attempt.placed_at
    return attempt.usd_per_hour * max(0.0, held) / 3600 * weight / weights
