"""The scheduler on public traces, beside what their authors published and what nobody can beat: `make bench-scheduling`.

    python -m benchmarks.scheduling [--data DIR] [--seeds 42,43] [--only placement,muri,shockwave,philly,speed,live]

DIR is laid out like ../shared/traces (see docs/scheduling.md). One set of parameters serves every trace: SITE below. What a
policy knows stands in each row: `nothing` is the submission, the user where the trace has one, and what has ended so far.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from stoker.core.site import Backfill, Preemption, Site, Victims
from stoker.simulate.bounds import bounds
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.engine import Costs
from stoker.simulate.muri import read_muri
from stoker.simulate.muri import replay as replay_as_muri
from stoker.simulate.run import Model, Replay, replay
from stoker.simulate.trace import Trace, read_trace

SITE = Site(
    policy="gittins",
    backfill=Backfill.SKIP,
    defrag=True,
    head_seconds=1e12,  # in these orders long jobs are meant to wait; what bounds it is the restart price
    preemption=Preemption(victims=Victims.RESUMABLE, quantum_seconds=300.0, budget=1000, cost_seconds=30.0),
)
"""The one set of parameters."""

COSTS = Costs(restart_seconds=30.0)
PHILLY_DAYS = (date(2017, 10, 2), date(2017, 11, 5))
FAIR_SHARE = 3.75  # of Shockwave's 120 jobs on 32 GPUs: how many GPUs are wanted for each there is
LESS, MORE = "≤", "≥"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One figure, with what it is measured against."""

    what: str
    knows: str = "nothing"
    peer: str = ""
    bound: str = ""
    target: float | None = None
    moonshot: float | None = None
    better: str = LESS
    ours: float
    digits: int = 2

    @property
    def verdict(self) -> str:
        """Whether it is reached."""
        if self.target is None:
            return "-"
        return "BEST" if self._reaches(self.moonshot) else "yes" if self._reaches(self.target) else "NO"

    def _reaches(self, limit: float | None) -> bool:
        if limit is None:
            return False
        return self.ours <= limit if self.better == LESS else self.ours >= limit


@dataclass(frozen=True, slots=True)
class Outcome:
    """A replay in figures."""

    average_jct_seconds: float
    average_wait_seconds: float  # JCT less run time
    p99_wait_seconds: float
    makespan_seconds: float
    preemptions: float  # a job
    jct_ratio: float  # to the bound
    makespan_ratio: float
    cpu_seconds: float


def run(trace: Trace, nodes: str, site: Site = SITE, *, known: bool = False) -> tuple[Replay, Outcome]:
    """Replay a trace, and measure it."""
    began = time.process_time()
    model = Model(costs=COSTS, knows_run_times=known)
    cluster = nodes_of_text(nodes)
    done = replay(trace, cluster, site, model=model)
    cpu_seconds = time.process_time() - began
    jcts = [one.ended_at - one.submitted_at for one in done.runs]
    waits = sorted(one.ended_at - one.submitted_at - one.run_seconds for one in done.runs)
    limits = bounds(trace.jobs, sum(len(node.devices) for node in cluster))
    makespan = max(one.ended_at for one in done.runs)
    count = len(done.runs)
    assert count == len(trace.jobs), f"{len(trace.jobs) - count} jobs did not end"
    return done, Outcome(
        average_jct_seconds=sum(jcts) / count,
        average_wait_seconds=sum(waits) / count,
        p99_wait_seconds=waits[int(0.99 * count)],
        makespan_seconds=makespan,
        preemptions=sum(one.preemptions for one in done.runs) / count,
        jct_ratio=sum(jcts) / count / limits.average_jct_seconds,
        makespan_ratio=makespan / limits.makespan_seconds,
        cpu_seconds=cpu_seconds,
    )


def placement(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """A: how much of openb's GPUs is allocated under saturation, with FGD itself first."""
    from .placement import rows

    (fgd,) = rows(data, seeds, ["default"], ["fgd"])
    yield Target(
        what="openb default: FGD in our code, % allocated at 100 % arrivals (published 95.23)",
        knows="its workload",
        bound=f"{fgd.bound_at_100:.2f}",
        target=94.9,
        better=MORE,
        ours=fgd.at_100,
    )
    goals = {"default": (95.6, 96.5), "gpuspec33": (91.0, 94.0), "gpushare100": (87.2, 88.4)}
    wins, slowest, workloads = 0, 0.0, 0
    for row in rows(data, seeds, placers=["shadow-price"]):
        goal = goals.get(row.workload, (None, None))
        peer = "" if row.fgd_at_100 is None else f"FGD {row.fgd_at_100.mean:.2f} (sd {row.fgd_at_100.deviation:.2f})"
        yield Target(
            what=f"openb {row.workload}: % allocated at 100 % arrivals",
            peer=peer,
            bound=f"{row.bound_at_100:.2f}",
            target=goal[0],
            moonshot=goal[1],
            better=MORE,
            ours=row.at_100,
        )
        if row.workload == "default":
            yield Target(
                what="openb default: % allocated at 130 % arrivals",
                peer="FGD 95.39",
                bound=f"{row.bound_at_130:.2f}",
                target=96.0,
                moonshot=97.5,
                better=MORE,
                ours=row.at_130,
            )
        workloads += 1
        wins += row.gain is not None and row.gain > 2
        slowest = max(slowest, row.run_seconds)
    yield Target(
        what=f"workloads of {workloads} on which it is above FGD by more than 2 sd",
        target=12,
        moonshot=13,
        better=MORE,
        ours=wins,
        digits=0,
    )
    yield Target(what="slowest of these runs, mean s", peer="FGD in Go 600", target=5, moonshot=1, ours=slowest)


def muri(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """B: Muri's Philly virtual clusters on 64 GPUs; first its own published digits, then ours."""
    published = _published_muri(data)
    for name in ("trace1", "trace3"):
        jobs = read_muri(data / "muri" / f"{name}.csv.gz")
        for policy, column in (("srtf", "SRTF"), ("srsf", "SRSF"), ("tiresias-l", "Tiresias_L")):
            ours = replay_as_muri(jobs, policy=policy).avg_jct_seconds
            yield Target(
                what=f"muri-compat {name} {column}: ours / published",
                knows="as there",
                target=1.000001,
                ours=ours / published[name, column],
                digits=7,
            )
    plans: Mapping[str, tuple[str, float, float]] = {
        "trace1": ("Tiresias-L 4.22; Muri-L 1.36 (shares GPUs)", 2.2, 1.7),
        "trace3": ("Tiresias-L 2.74; Muri-L 0.70 (shares GPUs)", 2.3, 1.7),
    }
    for name, (peer, target, moonshot) in plans.items():
        trace = read_trace(data / "muri" / f"{name}.csv.gz")
        _, blind = run(trace, "8x8xV100")
        yield Target(
            what=f"{name}, avg JCT / bound, at {blind.preemptions:.2f} preemptions a job",
            peer=peer,
            bound="1",
            target=target,
            moonshot=moonshot,
            ours=blind.jct_ratio,
        )
        known = {"trace1": ("SRSF 1.24", 1.20, 1.12), "trace3": ("SRSF 1.46", 1.36, 1.25)}[name]
        _, oracle = run(
            trace, "8x8xV100", replace(SITE, policy="srsf", policy_options={"gain": 1.0, "patience": 0.0}), known=True
        )
        yield Target(
            what=f"{name}, avg JCT / bound, at {oracle.preemptions:.2f} preemptions a job",
            knows="run times",
            peer=known[0],
            bound="1",
            target=known[1],
            moonshot=known[2],
            ours=oracle.jct_ratio,
        )
    for name, peer in (("trace1_pr", "Tiresias-L 1.02 at JCT 3.95"), ("trace3_pr", "Tiresias-L 1.03 at JCT 2.87")):
        _, blind = run(read_trace(data / "muri" / f"{name}.csv.gz"), "8x8xV100")
        yield Target(
            what=f"{name}, makespan / bound",
            peer=peer,
            bound="1",
            target=1.05,
            moonshot=1.02,
            ours=blind.makespan_ratio,
            digits=3,
        )
        yield Target(
            what=f"{name}, avg JCT / bound",
            peer=peer,
            bound="1",
            target=1.5,
            moonshot=1.1,
            ours=blind.jct_ratio,
        )


def shockwave(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """C: finish-time fairness of 120 jobs on 32 GPUs."""
    (file,) = (data / "shockwave").glob("shockwave_120*.gz")
    trace = read_trace(file)
    quick = replace(SITE.preemption, quantum_seconds=120.0)  # the rounds of the peers' simulator
    for known, knows in ((True, "run times (declared as steps)"), (False, "nothing")):
        done, outcome = run(trace, "8x4xV100", replace(SITE, policy="ftf", preemption=quick), known=known)
        ftf = [(one.ended_at - one.submitted_at) / (one.run_seconds * FAIR_SHARE) for one in done.runs]
        yield Target(
            what="Shockwave-120, worst FTF",
            knows=knows,
            peer="Shockwave 1.78, Gandiva-Fair 1.85, Gavel 2.95",
            bound="1 for the mean of 1/FTF",
            target=1.78,
            moonshot=1.4,
            ours=max(ftf),
        )
        yield Target(
            what="Shockwave-120, % with FTF > 1.05",
            knows=knows,
            peer="Shockwave 5.0, Gavel 25.0",
            target=5.0,
            moonshot=2.0,
            ours=100 * sum(one > 1.05 for one in ftf) / len(ftf),
            digits=1,
        )
        yield Target(
            what="Shockwave-120, makespan s (bound by its duration column)",
            knows=knows,
            peer="Shockwave 24,197, Gavel 33,208",
            bound=f"{outcome.makespan_seconds / outcome.makespan_ratio:,.0f}",
            target=26_000,
            moonshot=23_000,
            ours=outcome.makespan_seconds,
            digits=0,
        )


def philly(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """D: five weeks of Philly on 640 and 512 GPUs, no run times known."""
    trace = _philly(data)
    _, large = run(trace, "80x8xV100")
    peer = "plain LAS 235 / 469 / 0.59; EASY with oracle 4,970 / 86,821 / 0"
    bound = "SRSF with oracle 196 / 373 / 0.25"
    yield Target(
        what="Philly, 640 GPUs: average wait s",
        peer=peer,
        bound=bound,
        target=260,
        moonshot=200,
        ours=large.average_wait_seconds,
        digits=0,
    )
    yield Target(what="… p99 wait s", target=700, moonshot=400, ours=large.p99_wait_seconds, digits=0)
    yield Target(what="… preemptions a job", target=0.15, moonshot=0.10, ours=large.preemptions, digits=3)
    _, small = run(trace, "64x8xV100")
    yield Target(
        what="Philly, 512 GPUs: avg JCT / bound",
        peer="plain LAS 1.15 / 3.7; SRSF with oracle 1.08 / 0.69",
        bound="1",
        target=1.18,
        moonshot=1.12,
        ours=small.jct_ratio,
        digits=3,
    )
    yield Target(what="… preemptions a job", target=0.7, moonshot=0.4, ours=small.preemptions, digits=3)
    calm = replace(SITE, preemption=replace(SITE.preemption, victims=Victims.NOBODY), defrag=False)
    _, still = run(trace, "80x8xV100", calm)
    assert still.preemptions == 0
    yield Target(
        what="Philly, 640 GPUs, nobody stopped: avg JCT / bound",
        peer="FIFO with skip 1.40; EASY with oracle 1.42; SJF with oracle 1.14",
        bound="1",
        target=1.30,
        moonshot=1.20,
        ours=still.jct_ratio,
        digits=3,
    )


def speed(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """How fast the control loop goes in virtual time, and one decision in a large cluster."""
    from . import tick

    trace = _philly(data)
    for policy in ("fifo", "las"):
        site = replace(SITE, policy=policy, defrag=False)
        _, outcome = run(trace, "80x8xV100", site)
        yield Target(
            what=f"replay of {len(trace.jobs):,} Philly jobs, 640 GPUs, {policy}: CPU s",
            peer="PAI simulator 51-111 s for 20,000; Muri's 2 min for 1,500",
            target=10,
            moonshot=2,
            ours=outcome.cpu_seconds,
            digits=1,
        )
    for nodes, waiting, seconds in tick.curve():
        last = nodes == tick.NODES
        yield Target(
            what=f"steady tick: {nodes:,} nodes, {8 * nodes:,} GPUs, {waiting:,} wait: ms",
            peer="KAI 180-290 ms for 500 pods on 4,000 nodes" if last else "",
            target=100 if last else None,
            moonshot=10 if last else None,
            ours=1000 * seconds,
            digits=1,
        )


def live(data: Path, seeds: Sequence[int]) -> Iterator[Target]:
    """E: Kueue's 15,000-workload generator on the live queue, with the database; and durable gang admissions."""
    from . import kueue

    outcome = kueue.generate()
    yield Target(
        what=f"Kueue's generator, {outcome.workloads:,} workloads: wall s",
        knows="-",
        peer="Kueue 351",
        bound="66 (quota)",
        target=90,
        moonshot=70,
        ours=outcome.seconds,
        digits=1,
    )
    yield Target(
        what="… workloads a second",
        peer="Kueue 42.7",
        ours=outcome.workloads / outcome.seconds,
        better=MORE,
        digits=0,
    )
    for size, seconds in outcome.admission_seconds.items():
        peer = {"large": "16.5", "medium": "76.8", "small": "215"}[size]
        yield Target(what=f"… mean time to admission, {size}: s", peer=f"Kueue {peer}", ours=seconds, digits=1)
    yield Target(
        what="1,000 gangs of 8, durable: gangs a second",
        knows="-",
        peer="Ray 18.9 placement groups/s; Slurm 500 jobs/s",
        target=500,
        moonshot=2000,
        better=MORE,
        ours=kueue.gangs_a_second(),
        digits=0,
    )


PARTS: Mapping[str, Callable[[Path, Sequence[int]], Iterator[Target]]] = {
    "placement": placement,
    "muri": muri,
    "shockwave": shockwave,
    "philly": philly,
    "speed": speed,
    "live": live,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 0 whatever comes out: a target is never a test."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description=__doc__.splitlines()[0])
    default = os.environ.get("STOKER_TRACES") or str(Path(__file__).parents[2] / "shared" / "traces")
    parser.add_argument("--data", type=Path, default=Path(default), help="the folder with the traces")
    parser.add_argument("--seeds", default="42,43,44,45,46", help="arrival seeds of the placement rows")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    asked = parser.parse_args(arguments)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    parts = asked.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    if not asked.data.is_dir() and parts != ["live"]:
        parser.error(
            f"no folder {asked.data}: name the one with the traces by --data (docs/scheduling.md says what is in it)"
        )
    print("| what | knows | published peer | bound | target | ours | reached | moonshot |")
    print("|---|---|---|---|---|---|---|---|")
    for part in parts:
        began = time.perf_counter()
        for row in PARTS[part](asked.data, seeds):
            print(_line(row), flush=True)
        print(f"· {part}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return 0


def _line(row: Target) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{row.better} {value:,.{row.digits if value < 1e4 else 0}f}"

    ours = f"**{row.ours:,.{row.digits}f}**"
    cells = (row.what, row.knows, row.peer, row.bound, number(row.target), ours, row.verdict, number(row.moonshot))
    return f"| {' | '.join(cells)} |"


def _philly(data: Path) -> Trace:
    (file,) = (data / "philly").glob("*.csv.gz")
    return read_trace(file).days(*PHILLY_DAYS)


def _published_muri(data: Path) -> dict[tuple[str, str], float]:
    with gzip.open(data / "published" / "muri_64gpu.csv.gz", "rt") as file:
        return {(row["trace"], row["policy"]): float(row["avg_jct_s"]) for row in csv.DictReader(file)}


if __name__ == "__main__":
    sys.exit(main())
