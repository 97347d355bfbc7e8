"""How full a cluster becomes: the saturation replay of FGD (USENIX ATC 2023) on Alibaba's openb trace, by real placers.

A workload's pods come in random order, then copies of them drawn at random, until 130 % of all GPUs have been asked for.
Nobody leaves; a pod that does not fit is dropped for good. Allocation at x is what is held when x % have been asked for.
The node list's order is another one with every seed, and placers take the first of equals.

`python -m benchmarks.placement [--data DIR] [--seeds 42,43] [--workloads default,gpuspec33] [--placers fgd,shadow-price]`
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from stoker.core.node import Node
from stoker.core.spec import JobSpec
from stoker.scheduling.base import Placer
from stoker.scheduling.free import Free
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.placers.fgd import Fgd
from stoker.scheduling.placers.shadow_price import ShadowPrice
from stoker.scheduling.pricing.demand import Demand
from stoker.scheduling.pricing.typical import useless_milli
from stoker.simulate.allocation_bound import allocation_bound
from stoker.simulate.cluster import Cutter, nodes_of
from stoker.simulate.trace import Trace, read_trace

WORKLOADS = (
    "default cpu050 cpu100 cpu200 gpushare40 gpushare80 gpushare100 gpuspec10 gpuspec20 gpuspec33 "
    "multigpu20 multigpu30 multigpu40"
).split()
SEEDS = (42, 43, 44, 45, 46)
PLACERS: Mapping[str, Callable[[Sequence[JobSpec]], Placer]] = {
    "best-fit": lambda _: BestFit(),
    "fgd": Fgd,  # as published: it knows the workload
    "shadow-price": lambda _: ShadowPrice(),  # it starts from nothing
}
ASKED_AT_LAST = 1.3
DATA = Path(os.environ.get("STOKER_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
_PUBLISHED_NAMES = {"best-fit": "05-BestFit", "fgd": "06-FGD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure as published: mean and standard deviation of ten seeds, in percent."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRow:
    """One workload and one placer: percent of all GPUs, means over the seeds."""

    workload: str
    placer: str
    seeds: tuple[int, ...]
    at_100: float  # allocated, when 100 % have been asked for
    at_100_deviation: float
    at_130: float
    at_130_deviation: float
    useless_at_100: float  # idle, but of no use to the typical pod: FGD's fragmentation
    without_gpus_at_100: float  # of the pods that want no GPU, those placed
    run_seconds: float  # one replay, learning included
    bound_at_100: float  # nobody can allocate more
    bound_at_130: float
    published_at_100: Published | None = None  # of the same placer
    published_at_130: Published | None = None
    published_useless_at_100: Published | None = None
    fgd_at_100: Published | None = None  # as published, to be compared with

    @property
    def gain(self) -> float | None:
        """How far above FGD as published, in its standard deviations."""
        fgd = self.fgd_at_100
        return None if fgd is None else (self.at_100 - fgd.mean) / fgd.deviation


def rows(
    data: Path,
    seeds: Sequence[int] = SEEDS,
    workloads: Sequence[str] = tuple(WORKLOADS),
    placers: Sequence[str] = tuple(PLACERS),
) -> Iterator[PlacementRow]:
    """The table. `data` holds `openb/` and, if it is there, `published/`. Raises FileNotFoundError that says what is missing."""
    for workload in workloads:
        trace = read_trace(_existing(data, workload))
        bounds = _bounds(trace)
        for placer in placers:
            runs = [replay(trace, placer, seed) for seed in seeds]
            at_100, at_130 = [run.at_100 for run in runs], [run.at_130 for run in runs]
            name = _PUBLISHED_NAMES.get(placer, "")
            yield PlacementRow(
                workload=workload,
                placer=placer,
                seeds=tuple(seeds),
                at_100=statistics.fmean(at_100),
                at_100_deviation=_deviation(at_100),
                at_130=statistics.fmean(at_130),
                at_130_deviation=_deviation(at_130),
                useless_at_100=statistics.fmean(run.useless_at_100 for run in runs),
                without_gpus_at_100=statistics.fmean(run.without_gpus_at_100 for run in runs),
                run_seconds=statistics.fmean(run.seconds for run in runs),
                bound_at_100=bounds[0],
                bound_at_130=bounds[1],
                published_at_100=_published(data, "alloc", workload, name, 100),
                published_at_130=_published(data, "alloc", workload, name, 130),
                published_useless_at_100=_published(data, "frag", workload, name, 100),
                fgd_at_100=_published(data, "alloc", workload, "06-FGD", 100),
            )


def text(row: PlacementRow) -> str:
    """One line of a Markdown table."""
    cells = [
        row.workload,
        row.placer,
        f"{row.at_100:.2f} ({row.at_100_deviation:.2f})",
        f"{row.at_130:.2f} ({row.at_130_deviation:.2f})",
        f"{row.useless_at_100:.2f}",
        *(
            "" if figure is None else f"{figure.mean:.2f} ({figure.deviation:.2f})"
            for figure in (row.published_at_100, row.published_at_130, row.published_useless_at_100)
        ),
        f"{row.bound_at_100:.2f}",
        "" if row.gain is None or row.placer == "fgd" else f"{row.gain:+.1f}",
        f"{row.run_seconds:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


HEADER = """\
| workload | placer | at 100 (sd) | at 130 (sd) | useless | published at 100 | at 130 | useless | bound | above FGD, in sd | s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one replay came to, in percent."""

    at_100: float
    at_130: float
    useless_at_100: float
    without_gpus_at_100: float
    seconds: float


def replay(trace: Trace, placer_name: str, seed: int) -> Run:
    """Let the pods of one seed come, one after the other, through the placer and the arrays that a server uses."""
    nodes = nodes_of(trace.nodes)
    capacity = sum(1000 * len(node.devices) for node in nodes)
    specs = specs_of(trace, nodes)
    order = np.random.default_rng(seed + 1000).permutation(len(nodes))
    free = Free(replace(nodes[n], name=f"{place:05d}") for place, n in enumerate(order.tolist()))
    placer = PLACERS[placer_name](specs)
    coming = list(arrivals(specs, seed, int(ASKED_AT_LAST * capacity)))
    asked = held = with_none = placed_with_none = 0
    found: tuple[float, float, float] | None = None
    measured_seconds = 0.0
    begin = time.perf_counter()
    for number, spec in enumerate(coming):
        placer.learns(spec)
        is_placed = placer.place(str(number), spec, free) is not None
        free.settle()
        asked += spec.accelerator_milli
        held += spec.accelerator_milli * is_placed
        with_none += not spec.accelerator_milli
        placed_with_none += is_placed and not spec.accelerator_milli
        if found is None and asked >= capacity:
            moment = time.perf_counter()
            useless = useless_milli(Demand.of(specs), free)
            found = 100 * held / capacity, 100 * useless / capacity, 100 * placed_with_none / max(1, with_none)
            measured_seconds = time.perf_counter() - moment
    seconds = time.perf_counter() - begin - measured_seconds
    assert found is not None and capacity - int(free.milli.sum()) == held
    return Run(found[0], 100 * held / capacity, found[1], found[2], seconds)


def specs_of(trace: Trace, nodes: Sequence[Node]) -> list[JobSpec]:
    """What the pods ask for, as jobs of one replica. Equal ones are one object."""
    cutter, known, specs = Cutter.of(nodes), {}, []
    for pod in trace.jobs:
        key = (pod.gpus_milli, pod.accelerators, pod.vcpus, pod.memory_gb)
        if key not in known:
            known[key] = cutter.spec(pod, cutter.groups(pod), "default", resumable=False)
        specs.append(known[key])
    return specs


def arrivals(specs: Sequence[JobSpec], seed: int, until_milli: int) -> Iterator[JobSpec]:
    """The pods in random order, then copies drawn at random, until so much has been asked for."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(specs)).tolist()
    asked = number = 0
    while asked < until_milli:
        spec = specs[order[number] if number < len(order) else int(random.integers(len(specs)))]
        number += 1
        asked += spec.accelerator_milli
        yield spec


def _bounds(trace: Trace) -> tuple[float, float]:
    capacity = sum(1000 * node.gpus * node.count for node in trace.nodes)
    asked = sum(job.gpus_milli for job in trace.jobs)
    shares = (allocation_bound(trace.jobs, trace.nodes, copies=x * capacity / asked).share for x in (1.0, 1.3))
    at_100, at_130 = (100 * share for share in shares)
    return at_100, at_130


def _existing(data: Path, workload: str) -> Path:
    path = data / "openb" / f"openb_pod_list_{workload}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(f"no {path}: name the folder that holds openb/ (Alibaba's cluster-trace-gpu-v2023)")
    return path


def _published(data: Path, what: str, workload: str, placer: str, at: int) -> Published | None:
    row = _published_table(data / "published" / f"fgd_{what}_pct_by_arrival_pct_10seeds.csv.gz").get((workload, placer))
    return row and Published(mean=float(row[f"{at}_mean"]), deviation=float(row[f"{at}_std"]))


@cache
def _published_table(path: Path) -> Mapping[tuple[str, str], Mapping[str, str]]:
    if not path.exists():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["sc_policy"]): row for row in csv.DictReader(file)
        }


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, each line as it is found. Returns 1 if the data are not there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the folder that holds openb/ [$STOKER_TRACES]")
    parser.add_argument(
        "--seeds", type=_numbers, default=SEEDS, help="of the orders in which pods come [42,43,44,45,46]"
    )
    parser.add_argument("--workloads", type=_words(WORKLOADS), default=tuple(WORKLOADS), help="of the 13; default: all")
    parser.add_argument("--placers", type=_words(PLACERS), default=tuple(PLACERS), help=f"[{','.join(PLACERS)}]")
    asked = parser.parse_args(arguments)
    try:
        for number, row in enumerate(rows(asked.data, asked.seeds, asked.workloads, asked.placers)):
            print(text(row) if number else f"{HEADER}\n{text(row)}", flush=True)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _numbers(value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in value.split(","))


def _words(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(value: str) -> tuple[str, ...]:
        unknown = [part for part in value.split(",") if part not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {unknown[0]!r}; there are {', '.join(known)}")
        return tuple(value.split(","))

    return parse


if __name__ == "__main__":
    sys.exit(main())
