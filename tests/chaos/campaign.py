"""`make chaos`: everything that is tried to break Stoker, and a table of what came of it.

    python -m tests.chaos --seeds 300 --seed-base 0 --cycles 120 --fuzz-seconds 120

A seed that fails prints its story, with as few faults as will do; `--seeds 1 --seed-base N` plays it again.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import fuzz, real
from .mutants import MUTANTS, Mutant, find
from .run import play, shrink, told
from .simulation import Outcome
from .small_scope import explore

MUTANT_SEEDS = 150
_HASHED_TWICE = 20


@dataclass(slots=True)
class Sums:
    """What came of the seeds."""

    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    acknowledged: int = 0
    restarts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    recovered_seconds: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one."""
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_seconds += outcome.seconds
        self.acknowledged += outcome.acknowledged
        self.restarts += outcome.restarts
        self.faults.update(fault.kind for fault in outcome.faults)
        self.recovered_seconds += outcome.recovered_seconds
        if outcome.violation is not None:
            self.violations[outcome.violation.name] += 1


def simulate(seeds: Iterable[int], jobs: int) -> Sums:
    """Play seeds side by side, and tell the stories of those that fail."""
    sums = Sums()
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_be_quiet) as pool:
        for outcome in pool.imap_unordered(_brief, seeds):
            sums.add(outcome)
            if outcome.violation is not None:
                print(told(shrink(play(outcome.seed))), flush=True)
    return sums


def twice(seeds: Iterable[int], jobs: int) -> list[int]:
    """The seeds that have another story when they are played again, by a process whose hashes are others."""
    found = []
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_be_quiet) as first:
        hashes = {outcome.seed: outcome.hash for outcome in first.imap_unordered(_brief, seeds)}
    os.environ["PYTHONHASHSEED"] = "1"
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_be_quiet) as second:
        found = [o.seed for o in second.imap_unordered(_brief, hashes) if hashes[o.seed] != o.hash]
    os.environ.pop("PYTHONHASHSEED")
    return sorted(found)


def main(words: list[str]) -> int:
    """Returns 1 if anything was found that must not be."""
    asked = _parser().parse_args(words)
    jobs, wrong = asked.jobs or os.cpu_count() or 1, 0
    if asked.seeds:
        _title("Simulation")
        started, seeds = time.monotonic(), range(asked.seed_base, asked.seed_base + asked.seeds)
        sums = simulate(seeds, jobs)
        others = twice(seeds[:_HASHED_TWICE], jobs)
        print(_table(sums, others, time.monotonic() - started), flush=True)
        wrong += sum(sums.violations.values()) + len(others)
    if asked.small_scope:
        _title("Every state of three jobs on two nodes with two crashes")
        found = explore()
        print(f"{found.states:,} states, {found.moves:,} moves, none wrong, from each every job can end", flush=True)
    if asked.mutants:
        _title("Planted bugs")
        wrong += _plant(jobs)
    if asked.cycles:
        _title("Real faults")
        wrong += real.main([f"--cycles={asked.cycles}", f"--seed={asked.seed_base}"])
    if asked.fuzz_seconds:
        _title("Fuzzing")
        wrong += fuzz.main([f"--seconds={asked.fuzz_seconds}", f"--seed={asked.seed_base}"])
    print(f"\n{'nothing was found' if not wrong else f'{wrong} FOUND'}")
    return int(wrong > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=300, help="of the simulation (default 300)")
    parser.add_argument("--seed-base", type=int, default=0, help="the first of them; the others count from it, too")
    parser.add_argument("--cycles", type=int, default=200, help="of real faults (default 200)")
    parser.add_argument("--fuzz-seconds", type=float, default=240.0, help="in all (default 240)")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="plant no bugs")
    parser.add_argument("--no-small-scope", dest="small_scope", action="store_false", help="leave the small site out")
    parser.add_argument("--jobs", type=int, default=0, help="processes side by side (default: one a processor)")
    return parser


def _plant(jobs: int) -> int:
    """Returns how many planted bugs were not found."""
    missed = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for mutant, found in pool.imap(_found, MUTANTS):
            print(f"{'found' if found else 'MISSED':7} {mutant.name:60} {(found or '')[:100]}", flush=True)
            missed += found is None
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} found")
    return missed


def _found(mutant: Mutant) -> tuple[Mutant, str | None]:
    return mutant, find(mutant, MUTANT_SEEDS)


def _brief(seed: int) -> Outcome:
    """A seed without its story, which would be much to send."""
    outcome = play(seed)
    outcome.story = []
    return outcome


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


def _table(sums: Sums, others: list[int], seconds: float) -> str:
    rows = [
        ("seeds", f"{sums.seeds:,} in {seconds:,.0f} s, {sums.seeds / seconds:.1f} a second"),
        (
            "virtual time",
            f"{sums.virtual_seconds / 3600:,.0f} h, {sums.virtual_seconds / seconds:,.0f} times real time",
        ),
        ("steps, each looked at", f"{sums.steps:,}"),
        ("acknowledged submissions", f"{sums.acknowledged:,}"),
        ("faults", f"{sum(sums.faults.values()):,}, of {len(sums.faults)} kinds"),
        ("servers that died", f"{sums.restarts:,}"),
        ("seconds until the next round", _percentiles(sums.recovered_seconds)),
        ("violations", f"{sum(sums.violations.values())} {dict(sums.violations) or ''}".rstrip()),
        ("stories that differ when played again", f"{len(others)} {others or ''}".rstrip()),
    ]
    width = max(len(name) for name, _ in rows)
    kinds = "\n".join(f"    {count:8,}  {kind}" for kind, count in sums.faults.most_common())
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows) + f"\n{kinds}"


def _percentiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return (
        " ".join(f"p{p} {ordered[min(len(ordered) - 1, len(ordered) * p // 100)]:.1f}" for p in (50, 99))
        if ordered
        else "-"
    )


def _title(text: str) -> None:
    print(f"\n== {text} ==", flush=True)
