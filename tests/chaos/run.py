"""Play seeds, find one that fails, and tell its story with as few faults as will do."""

from __future__ import annotations

from .simulation import Outcome, Simulation

TOLD_LINES = 60


def play(seed: int) -> Outcome:
    """One seed, as it comes."""
    return Simulation(seed).run()


def shrink(failed: Outcome, most_runs: int = 200, simulation: type[Simulation] = Simulation) -> Outcome:
    """The same violation with as few faults as are found to be needed (delta debugging: Zeller, Hildebrandt 2002)."""
    assert failed.violation is not None
    best, runs, pieces = failed, 0, 2
    while best.faults and runs < most_runs:
        size = max(1, len(best.faults) // pieces)
        for begin in range(0, len(best.faults), size):
            runs += 1
            left = [*best.faults[:begin], *best.faults[begin + size :]]
            tried = simulation(best.seed, only=left).run()
            if tried.violation is not None and tried.violation.name == failed.violation.name:
                best, pieces = tried, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(best.faults), 2 * pieces)
    return best


def told(outcome: Outcome) -> str:
    """The story of a seed that failed."""
    faults = "\n".join(f"    {fault.kind} ({fault.n})" for fault in outcome.faults) or "    none"
    story = "\n".join(f"    {line}" for line in outcome.story[-TOLD_LINES:])
    return f"seed {outcome.seed}: {outcome.violation}\n  faults that it takes:\n{faults}\n  how it ends:\n{story}\n"
