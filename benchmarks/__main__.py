"""`python -m benchmarks [NAME…]`: run the parts that are named, or all, and show one table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from .measure import Row, as_json, machine, table

PARTS = {
    "cli": "the command line's CPU time",
    "start": "from submit to the first line of user code, beside Ray",
    "submissions": "durable submissions over HTTP, and what a kill -9 leaves of them",
    "api": "create, get and list of 100 among 100,000 jobs",
    "memory": "the memory of a server at rest",
    "files": "a large file through the server, in and out",
    "copies": "a job's directory on another machine: files to and from the site, beside plain copies",
    "jobs100": "100 short jobs to their end",
    "logs": "a program that prints 100 MB, to a client that follows it",
    "crowd": "1,000 running and 100,000 stored jobs, 200 people who ask and 50 who follow",
    "replicas": "the server's CPU for 1,000 replicas that run, beat and print",
    "gang": "gangs of 50 to 200 on this machine, and the server meanwhile",
    "noisy": "what a job that prints 100 MB a minute costs the others",
    "hour": "the control plane's memory over an hour of virtual time",
    "steps": "what it costs a step of training to be measured",
    "samples": "what it costs to see GPUs: 8 of a machine, 10,000 of a site, a day of a job",
    "diagnosis": "whether `stoker diagnose` is right: programs whose trouble is known",
    "checkpoint": "for how long training stands still for a checkpoint, beside PyTorch's own ways",
    "scaling": "what a second process brings, beside a bare launch",
    "restart": "from the kill of one of two processes to the next step, beside torchrun",
    "tick": "one decision in a large cluster",
    "deep_queue": "thousands of jobs at once on 64 GPUs, replayed: CPU seconds, and how they grow",
    "ray_start": "from submit to the first line on a Ray cluster, beside Ray Jobs and a bare actor",
    "ray_short": "500 short jobs on a Ray cluster, beside bare tasks and Ray Jobs",
    "ray_gang": "a gang of 13 on a Ray cluster, beside bare actors",
    "memory_estimates": "how true it is what `stoker choose` says of a training's memory: fifteen real models",
    "forecast": "how true it is what `stoker why` says of a job's start, on the Philly trace",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure. Returns 0 whatever comes out, as a budget is never a test; 1 if a part could not be measured."""
    listed = "\n".join(f"  {name:16} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Measure Stoker against its budgets. The parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="NAME", help="parts to run; default: all")
    parser.add_argument("--runs", type=int, help="samples of each figure; default: each part's own RUNS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows with every sample to a file")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    if asked.runs is not None and asked.runs < 1:
        parser.error("--runs: at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers we started end with us
    for name in [name for name in os.environ if name.startswith("STOKER_") and name != "STOKER_TRACES"]:
        del os.environ[name]  # the servers and commands that we start are ours alone
    about = machine()
    print("  ".join(f"{key}: {value}" for key, value in about.items()), flush=True)
    rows: list[Row] = []
    failed: list[str] = []
    for name in asked.parts or PARTS:
        part = import_module(f"benchmarks.{name}")
        print(f"· {name}: {PARTS[name]}", file=sys.stderr, flush=True)
        try:
            rows.extend(part.measure(asked.runs or part.RUNS))
        except Exception as error:  # what the other parts measured is shown all the same
            traceback.print_exc()
            failed.append(name)
            rows.append(Row(what=name, note=f"failed: {type(error).__name__}, see above"))
    print(table(rows))
    print(f"load at the end: {machine()['load']}")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": about, "rows": as_json(rows)}, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
