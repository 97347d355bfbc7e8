"""Real faults against real processes: `python -m tests.chaos.real --cycles 300 --seed 1`.

A round has a home and clients of its own. In each of its cycles something is killed, paused, filled or set at a random moment;
then the server is started again if it is gone. At the end everything may settle, and `check` looks. What happens is drawn from
the seed; when it happens is the machine's affair, so a seed finds the same faults, not the same instants.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.postgresql import PostgreSQL

from .check import Findings, check
from .databases import Database, OnPostgresql
from .faults import FAULTS, PLACES, possible
from .program import KINDS
from .rig import Rig, build_clock, can_mount

CYCLES_A_ROUND = 12
_SETTLE_SECONDS = 120.0
_GONE_SECONDS = 5.0
_MOST_SHOWN = 20


@dataclass(slots=True)
class Tally:
    """What came of one round, or of all."""

    cycles: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    findings: Findings = field(default_factory=Findings)
    orphans: list[str] = field(default_factory=list)
    recovery_seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def wrong(self) -> list[str]:
        """Everything that is wrong, in sentences."""
        found = self.findings
        return [*found.lost, *found.twice, *self.orphans, *found.lines, *found.others]

    def add(self, other: Tally) -> None:
        """Count those of a round too."""
        self.cycles += other.cycles
        self.faults += other.faults
        self.findings.add(other.findings)
        self.orphans += other.orphans
        for what, seconds in other.recovery_seconds.items():
            self.recovery_seconds[what] += seconds


def run_round(
    folder: Path,
    seed: str,
    faults: Sequence[str] | int,
    *,
    away_seconds: float,
    on_tmpfs: bool = False,
    database: Database | None = None,
    clock: Path | None = None,
    kinds: Sequence[str] = KINDS,
) -> Tally:
    """One round: so many faults, or just these."""
    tally = Tally()
    with Rig(folder, seed, on_tmpfs=on_tmpfs, database=database, clock=clock, kinds=kinds) as rig:
        for name in [rig.draw.choice(possible(rig)) for _ in range(faults)] if isinstance(faults, int) else faults:
            time.sleep(rig.draw.uniform(0.1, 1.5))
            FAULTS[name](rig, away_seconds)
            if rig.server is not None and rig.server.poll() is not None:
                rig.wrong.append(f"the server ended by itself after {name!r}")
                rig.kill_server()
            if rig.server is None:
                rig.restart()
            tally.cycles += 1
            tally.faults[name] += 1
        _settle(rig)
        tally.orphans = _orphans(rig)
        rig.end_server()
        tally.findings = check(rig.database, rig.home, rig.journals, rig.witness, rig.hits)
        tally.findings.others += rig.wrong
        errors = (folder / "clients.err").read_text()
        tally.findings.others += [f"clients: {errors[-2000:]}"] if errors else []
        tally.recovery_seconds.update(rig.recovery_seconds)
    return tally


def _settle(rig: Rig) -> None:
    """The clients end, and every job does."""
    rig.end_clients()
    until = time.monotonic() + _SETTLE_SECONDS
    with rig.client() as client:
        while (live := client.live_jobs()) and time.monotonic() < until:
            time.sleep(0.2)
        for job in live[:3]:
            rig.wrong.append(f"does not end: {client.explain(job['project'], job['name'])}")


def _orphans(rig: Rig) -> list[str]:
    """What runs though no job does, after a moment in which the last supervisors may ship their lines."""
    until = time.monotonic() + _GONE_SECONDS
    while (found := rig.processes()) and time.monotonic() < until:
        time.sleep(0.1)
    told = []
    for process in found:
        try:
            told.append(f"process {process.pid} of {process.ppid()}: {' '.join(process.cmdline())[:300]}")
        except Exception:  # it has ended just now
            continue
    return told


def show(tally: Tally, seconds: float) -> str:
    """The table."""
    found = tally.findings
    rows = [
        ("cycles", f"{tally.cycles} in {seconds:,.0f} s"),
        ("acknowledged submissions", str(found.acknowledged)),
        ("lost, or ended wrongly", str(len(found.lost))),
        ("run twice", str(len(found.twice))),
        ("orphans", str(len(tally.orphans))),
        ("lines missing, doubled or out of order", str(len(found.lines))),
        ("anything else wrong", str(len(found.others))),
    ]
    for (who, what), samples in sorted(tally.recovery_seconds.items()):
        shown = " ".join(f"p{p} {_percentile(samples, p):.2f}" for p in (50, 99))
        rows.append((f"seconds until {who} {what}", f"{shown} (of {len(samples)})"))
    rows += [(f"  {name}", str(tally.faults[name])) for name in FAULTS if tally.faults[name]]
    width = max(len(what) for what, _ in rows)
    return "\n".join(f"{what:{width}}  {value}" for what, value in rows)


def _percentile(samples: Sequence[float], percent: int) -> float:
    return sorted(samples)[min(len(samples) - 1, len(samples) * percent // 100)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Rounds until there were enough. Returns 1 if anything is wrong; the folders of such rounds stay."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.real", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=300, help="faults in all (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of what happens (default 1)")
    parser.add_argument("--minutes", type=float, help="end after so long, whatever is left")
    parser.add_argument(
        "--away", type=float, default=2.0, help="seconds that a paused or full thing stays so (default 2)"
    )
    parser.add_argument("--only", choices=list(FAULTS), help="this fault alone")
    parser.add_argument("--without", choices=KINDS, action="append", default=[], help="no jobs of this kind")
    asked = parser.parse_args(arguments)
    base, begin, tally, number = Path(tempfile.mkdtemp(prefix="stoker-chaos-")), time.monotonic(), Tally(), 0
    clock, mounts = build_clock(base), can_mount()
    print(
        f"clock jumps: {'yes' if clock else 'no C compiler'}   full disks: {'yes' if mounts else 'not allowed to mount'}"
    )
    while tally.cycles < asked.cycles:
        if asked.minutes is not None and time.monotonic() - begin > asked.minutes * 60:
            break
        cycles = min(CYCLES_A_ROUND, asked.cycles - tally.cycles)
        folder, before = base / f"round-{number}", time.monotonic()
        with ExitStack() as held:
            on = PLACES.get(asked.only, ("", "tmpfs", "postgresql")[number % 3])
            found = run_round(
                folder,
                f"{asked.seed}/{number}",
                [asked.only] * cycles if asked.only else cycles,
                away_seconds=asked.away,
                on_tmpfs=on == "tmpfs" and mounts,
                database=OnPostgresql(held.enter_context(PostgreSQL())) if on == "postgresql" else None,
                clock=clock,
                kinds=[kind for kind in KINDS if kind not in asked.without],
            )
        tally.add(found)
        print(f"round {number}: {time.monotonic() - before:.0f} s, {f'see {folder}' if found.wrong else 'clean'}")
        print("\n".join(f"! {text}" for text in found.wrong[:_MOST_SHOWN]), end="\n" if found.wrong else "", flush=True)
        if not found.wrong:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    print(show(tally, time.monotonic() - begin))
    if not tally.wrong:
        shutil.rmtree(base, ignore_errors=True)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
