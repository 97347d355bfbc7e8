"""The command line's CPU time, which every use of it costs; wall time besides. Against an empty Python program."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .measure import Row, Spent, ratio, spend
from .server import Server, stoker_command

RUNS = 15
_LISTED_JOBS = 20
_BUDGETS = {"stoker --version": (0.15, 0.08), "stoker jobs list": (0.40, 0.25)}  # seconds of CPU, with the moonshots


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    commands: Mapping[str, list[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "stoker --version": [*stoker_command(), "--version"],
        "stoker jobs list": [*stoker_command(), "jobs", "list"],
    }
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    with Server("--hold") as server, tempfile.TemporaryDirectory() as folder:
        for number in range(_LISTED_JOBS):
            server.run(f"listed_{number}", "true")
        for run in range(-1, runs):
            for name, command in commands.items():
                found = spend(command, server.environment, Path(folder))
                if run >= 0:  # the first round warms the disk's cache and writes the bytecode
                    spent[name].append(found)
    bare = [found.cpu_seconds for found in spent["python -c pass"]]
    yield Row(what="python -c pass, CPU", samples=bare)
    for name, (budget, moonshot) in _BUDGETS.items():
        cpu = [found.cpu_seconds for found in spent[name]]
        yield Row(
            what=f"{name}, CPU",
            samples=cpu,
            budget=budget,
            moonshot=moonshot,
            ratio=ratio(cpu, bare),
            peer="python -c pass",
        )
    bare = [found.wall_seconds for found in spent["python -c pass"]]
    for name in _BUDGETS:
        wall = [found.wall_seconds for found in spent[name]]
        yield Row(what=f"{name}, wall", samples=wall, ratio=ratio(wall, bare), peer="python -c pass")
